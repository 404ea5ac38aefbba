"""Write a checkpoint with random weights in exactly the published form, for tests and benchmarks.

    python tools/make_checkpoint.py --size 0.8B OUT

Names, shapes, types, shards and index, config, tokenizer and chat template are as published; only the numbers
are random (and sane: activations stay finite). It is written as it is made, in bounded memory.

`--size tiny` is a model of 8 small layers with the vocabulary of the built-in model, which has all parts of a
real one: text, multi-token prediction and a vision tower.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from qanat.checkpoint.config import ModelConfig  # noqa: E402
from qanat.checkpoint.names import expected_tensors  # noqa: E402
from qanat.checkpoint.safetensors_write import TensorPlan, planned_size, write_planned  # noqa: E402
from tools import published_sizes as published  # noqa: E402
from tools.random_weights import random_blocks  # noqa: E402
from tools.tiny_models import stored_dtype  # noqa: E402

POCKET = ROOT / "src" / "qanat" / "pocket_model"
SHARD_BYTES = 5_000_000_000
METADATA = {"format": "pt"}  # what other readers look for


@dataclass(frozen=True)
class Plan:
    """What is going to be written, known to the byte before a single number is made."""

    size: str
    config: dict[str, Any]
    shards: dict[str, list[TensorPlan]]  # file name -> tensors

    @property
    def total_size(self) -> int:
        """Bytes of all tensors: `metadata.total_size` of the index."""
        return sum(plan.nbytes for plans in self.shards.values() for plan in plans)

    @property
    def file_bytes(self) -> int:
        """Bytes of the weight files, headers included."""
        return sum(planned_size(plans, METADATA) for plans in self.shards.values())


def plan_checkpoint(size: str, dtype: str = "BF16", shard_bytes: int = SHARD_BYTES) -> Plan:
    """Plan a checkpoint of a published size or "tiny".

    Args:
        size: one of `published_sizes.SIZES`.
        dtype: "BF16", "F16" or "F32"; A_log and linear_attn.norm.weight stay F32.
        shard_bytes: the most bytes of tensors in one file (a larger tensor gets a file of its own).
    """
    if size == "tiny":
        config = published.tiny_config(ModelConfig.from_file(POCKET / "config.json").text.vocab_size)
    else:
        config = published.published_config(size)
    table = expected_tensors(ModelConfig.from_dict(config))
    plans = [TensorPlan(name, stored_dtype(name, dtype), want.shape) for name, want in table.items()]
    groups: list[list[TensorPlan]] = [[]]
    filled = 0
    for plan in plans:
        if groups[-1] and filled + plan.nbytes > shard_bytes:
            groups.append([])
            filled = 0
        groups[-1].append(plan)
        filled += plan.nbytes
    if size == "tiny" and len(groups) == 1:
        return Plan(size, config, {"model.safetensors": groups[0]})
    names = [f"model.safetensors-{i:05d}-of-{len(groups):05d}.safetensors" for i in range(1, len(groups) + 1)]
    return Plan(size, config, dict(zip(names, groups, strict=True)))


def write_checkpoint(plan: Plan, out: Path, seed: int = 0, *, quiet: bool = False) -> None:
    """Write a planned checkpoint into a folder, which is made if it is not there.

    The index and the weights come last, so that an interrupted run leaves no folder that looks complete.
    """
    out.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(out).free
    if plan.file_bytes > free:
        raise SystemExit(f"{out}: {plan.file_bytes / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free")
    _write_small_files(plan, out)
    progress = _Progress(plan.total_size, quiet)
    tied = bool(plan.config["tie_word_embeddings"])
    for name, plans in plan.shards.items():
        write_planned(
            out / name, plans, lambda p: progress.count(random_blocks(p, seed, tied=tied)), METADATA
        )
    progress.end()
    if list(plan.shards) != ["model.safetensors"]:
        weight_map = {p.name: name for name, plans in plan.shards.items() for p in plans}
        index = {"metadata": {"total_size": plan.total_size}, "weight_map": weight_map}
        _write_json(out / "model.safetensors.index.json", index)


def _write_small_files(plan: Plan, out: Path) -> None:
    from tools.templates import template_text

    _write_json(out / "config.json", plan.config)
    generation = published.generation_config(plan.size)
    if generation is not None:
        _write_json(out / "generation_config.json", generation)
    for name, content in published.preprocessor_configs().items():
        _write_json(out / name, content)
    template = template_text(published.thinks_by_default(plan.size))
    (out / "chat_template.jinja").write_text(template, encoding="utf-8")
    if plan.size == "tiny":
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(POCKET / name, out / name)
        return
    from qanat.text.vocabulary import write_tokenizer_files

    write_tokenizer_files(out)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=4, ensure_ascii=False) + "\n", encoding="utf-8")


class _Progress:
    """Counts bytes on standard error, once a second."""

    def __init__(self, total: int, quiet: bool) -> None:
        self.total, self.quiet = max(total, 1), quiet
        self.done = 0
        self.start = self.shown = time.monotonic()

    def count(self, blocks: Iterable[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        for block in blocks:
            yield block
            self.done += block.nbytes
            now = time.monotonic()
            if now - self.shown > 1:
                self.shown = now
                self._show()

    def end(self) -> None:
        self._show()
        if not self.quiet:
            print(file=sys.stderr)

    def _show(self) -> None:
        if not self.quiet:
            seconds = max(time.monotonic() - self.start, 1e-9)
            line = (
                f"\r{self.done / 1e9:.2f} of {self.total / 1e9:.2f} GB, {self.done / seconds / 1e9:.2f} GB/s "
            )
            print(line, end="", file=sys.stderr, flush=True)


def main() -> None:
    """Read the options and write the checkpoint."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to write")
    parser.add_argument("--size", required=True, choices=published.SIZES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=("BF16", "F16", "F32"), default="BF16")
    parser.add_argument("--shard-bytes", type=int, default=SHARD_BYTES, help="the most bytes in one file")
    arguments = parser.parse_args()
    if arguments.seed < 0 or arguments.shard_bytes < 1:
        parser.error("--seed must not be negative, and --shard-bytes must be positive")
    plan = plan_checkpoint(arguments.size, arguments.dtype, arguments.shard_bytes)
    write_checkpoint(plan, arguments.out, arguments.seed)


if __name__ == "__main__":
    main()
