"""From trained weights to the published form: names, dtypes, one safetensors file, and the JSON beside it.

    python -m tools.pocket.export --weights build/pocket/run/ema.pt --mtp build/pocket/mtp/ema.pt \\
        --tokenizer build/pocket --out src/qanat/pocket_model

Without --mtp the checkpoint has no layer for multi-token prediction, and its config says so. Everything is
stored as BF16 except `A_log` and `linear_attn.norm.weight`, which are F32 as in the published files; the head
is the embedding and is not stored twice.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .shape import config_json, fresh_model, generation_config_json

if TYPE_CHECKING:
    import torch


def published_tensors(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename transformers' text-only names to the published ones and round to the published dtypes.

    `mtp.*` has its published names already.
    """
    import torch

    tensors = {}
    for name, tensor in state.items():
        if name == "lm_head.weight":
            continue
        stays_f32 = name.endswith(("A_log", "linear_attn.norm.weight"))
        new_name = (
            "model.language_model." + name.removeprefix("model.") if name.startswith("model.") else name
        )
        tensors[new_name] = tensor.detach().to(torch.float32 if stays_f32 else torch.bfloat16).contiguous()
    return dict(sorted(tensors.items()))


def write_json(path: Path, contents: dict[str, Any]) -> None:
    """Write one of the small JSON files."""
    path.write_text(json.dumps(contents, ensure_ascii=False, indent=4) + "\n", encoding="utf-8")


def export(state: Mapping[str, torch.Tensor], tokenizer_folder: Path, out: Path) -> int:
    """Write the whole checkpoint folder (the chat template excepted); returns its size in bytes.

    `state` is the trunk's, with the `mtp.*` tensors beside it if there are any.
    """
    from safetensors.torch import save_file

    for name in ("tokenizer.json", "tokenizer_config.json"):
        if not (tokenizer_folder / name).is_file():
            raise SystemExit(f"{tokenizer_folder} has no {name}: make it with tools.pocket.tokenizer")
    out.mkdir(parents=True, exist_ok=True)
    save_file(published_tensors(state), out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
    write_json(out / "config.json", config_json(int(any(name.startswith("mtp.") for name in state))))
    write_json(out / "generation_config.json", generation_config_json())
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (tokenizer_folder / name).resolve() != (out / name).resolve():
            shutil.copyfile(tokenizer_folder / name, out / name)
    return sum(file.stat().st_size for file in out.iterdir() if file.is_file())


def mean_of(files: list[Path]) -> dict[str, torch.Tensor]:
    """The mean of several states of one training, often better than each (M. Wortsman et al., 2022)."""
    import torch

    states = [torch.load(file, weights_only=True) for file in files]
    expected = {name: p.shape for name, p in fresh_model(0).named_parameters()}
    for file, state in zip(files, states, strict=True):
        if not isinstance(state, dict) or {name: p.shape for name, p in state.items()} != expected:
            raise SystemExit(f"{file}: not the weights of the miniature; give last.pt or ema.pt of train.py")
    return {name: sum(state[name] for state in states) / len(states) for name in expected}


def draft_layer(file: Path) -> dict[str, torch.Tensor]:
    """The state that train_mtp.py saved."""
    import torch

    from .mtp import fresh_mtp

    state = torch.load(file, weights_only=True)
    expected = {name: p.shape for name, p in fresh_mtp(0).items()}
    if not isinstance(state, dict) or {name: p.shape for name, p in state.items()} != expected:
        raise SystemExit(
            f"{file}: not the weights of the draft layer; give last.pt or ema.pt of train_mtp.py"
        )
    return dict(state)


def main() -> None:
    """Export a saved state dict, or random weights when none is given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--weights",
        type=Path,
        nargs="+",
        help="a state dict saved by train.py, or several whose mean is taken; random weights without it",
    )
    parser.add_argument("--mtp", type=Path, help="a state dict saved by train_mtp.py")
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder with the tokenizer files")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    state = mean_of(args.weights) if args.weights else dict(fresh_model(0).state_dict())
    if args.mtp:
        state = {**state, **draft_layer(args.mtp)}
    print(f"{export(state, args.tokenizer, args.out)} bytes -> {args.out}")


if __name__ == "__main__":
    main()
