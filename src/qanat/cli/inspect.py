"""`qanat inspect`: what a model is, and what it costs to run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qanat.cli.options import also_model_option, one_model
from qanat.cli.output import bytes_text, print_json

if TYPE_CHECKING:
    from qanat.checkpoint import Checkpoint, ModelConfig

__all__ = ["facts", "inspect"]

CONTEXTS = (1024, 4096, 8192, 32768, 131072, 262144)


def facts(config: ModelConfig, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """Everything `inspect` prints, as plain values: counts, bytes, and memory by length of context."""
    from qanat.engine.memory import estimate

    text = config.text
    found: dict[str, Any] = {
        "architecture": config.architecture,
        "layers": text.num_hidden_layers,
        "linear_attention_layers": text.num_linear_layers,
        "full_attention_layers": text.num_full_layers,
        "hidden_size": text.hidden_size,
        "vocab_size": text.vocab_size,
        "max_position_embeddings": text.max_position_embeddings,
        "tied_head": config.tie_word_embeddings,
        "parameters": {
            "text": text.num_parameters,
            "multi_token_prediction": text.num_mtp_parameters,
            "vision": config.vision.num_parameters if config.vision else 0,
            "all": config.num_parameters,
        },
        "bytes_read_per_token_bf16": text.bytes_read_per_token,
        "kv_bytes_per_token_bf16": text.kv_bytes_per_token,
        "state_bytes_per_sequence": text.recurrent_state_bytes + text.conv_state_bytes,
    }
    if text.moe is not None:
        found["experts"] = {"all": text.moe.num_experts, "per_token": text.moe.num_experts_per_tok}
    if checkpoint is not None:
        sizes = Counter[str]()
        for view in checkpoint.tensors.values():
            sizes[str(view.dtype)] += view.nbytes
        found["files"] = {
            "tensors": len(checkpoint.tensors),
            "bytes": checkpoint.total_bytes,
            "bytes_by_dtype": dict(sizes),
            "stop_ids": sorted(checkpoint.stop_ids),
        }
    longest = text.max_position_embeddings
    contexts = sorted({length for length in (*CONTEXTS, longest) if length <= longest})
    found["memory_bytes"] = {
        weights: {str(length): estimate(config.text, weights, length, 1).total for length in contexts}
        for weights in ("bf16", "f32")
    }
    return found


def inspect(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A model folder, a hub id, or `pocket`.")
    ] = None,
    named: Annotated[str | None, also_model_option] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never ask the hub.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show a model's architecture, its size, and the memory it needs; every tensor is checked."""
    model = one_model("inspect", model, named)
    from qanat.checkpoint import load_checkpoint
    from qanat.engine.memory import available_bytes

    checkpoint = load_checkpoint(model, revision=revision, offline=offline or None)
    found = facts(checkpoint.config, checkpoint)
    if as_json:
        print_json({"model": checkpoint.name, "path": str(checkpoint.path), **found})
        return
    _print(checkpoint.name, checkpoint.path, found, available_bytes())


def _count(number: int) -> str:
    for size, unit in ((10**9, "billion"), (10**6, "million")):
        if number >= size:
            return f"{number:,} ({number / size:.3g} {unit})"
    return f"{number:,}"


def _print(name: str, path: Path, found: dict[str, Any], free: int | None) -> None:
    parameters, files = found["parameters"], found["files"]
    rows = [
        ("model", f"{name}  ({path})"),
        ("architecture", found["architecture"]),
        (
            "layers",
            f"{found['layers']}: {found['linear_attention_layers']} Gated DeltaNet, "
            f"{found['full_attention_layers']} full attention; hidden size {found['hidden_size']}",
        ),
        (
            "vocabulary",
            f"{found['vocab_size']} rows, head {'tied to them' if found['tied_head'] else 'of its own'}",
        ),
        ("longest context", f"{found['max_position_embeddings']} tokens"),
        ("parameters", _count(parameters["all"])),
        ("  text", _count(parameters["text"])),
    ]
    if "experts" in found:
        rows.append(
            ("experts", f"{found['experts']['all']}, of which {found['experts']['per_token']} per token")
        )
    rows += [
        (f"  {label}", _count(parameters[key]))
        for label, key in (("draft layer", "multi_token_prediction"), ("vision", "vision"))
        if parameters[key]
    ]
    kinds = ", ".join(
        f"{bytes_text(size)} {dtype}" for dtype, size in sorted(files["bytes_by_dtype"].items())
    )
    rows += [
        ("files", f"{files['tensors']} tensors, {bytes_text(files['bytes'])} ({kinds})"),
        ("stop ids", " ".join(map(str, files["stop_ids"]))),
        (
            "read per token",
            f"{bytes_text(found['bytes_read_per_token_bf16'])} of weights in bf16, twice that in f32",
        ),
        (
            "keys and values",
            f"{bytes_text(found['kv_bytes_per_token_bf16'])} per token of context in bf16",
        ),
        ("state", f"{bytes_text(found['state_bytes_per_sequence'])} per sequence, whatever its length"),
        ("memory needed", "one sequence, weights in bf16 / f32"),
    ]
    bf16, f32 = found["memory_bytes"]["bf16"], found["memory_bytes"]["f32"]
    rows += [
        (f"  {length} tokens", f"{bytes_text(bf16[length])} / {bytes_text(f32[length])}") for length in bf16
    ]
    if free is not None:
        rows.append(("free here", bytes_text(free)))
    for label, value in rows:
        print(f"{label:<17}{value}")
