"""Writing .safetensors files piece by piece, so that a checkpoint larger than memory can be made.

A file appears under its name only when it is complete: it is written beside it and renamed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qanat.checkpoint.dtypes import BITS, name_of

__all__ = ["TensorPlan", "in_file_order", "planned_size", "write_planned", "write_safetensors"]

ALIGNMENT = 8  # the header is padded with spaces, so that the data start at a multiple of this


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """A tensor that is going to be written: dtype as the header names it, e.g. "BF16"."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of its data."""
        return prod(self.shape) * BITS[self.dtype] // 8


def in_file_order(plans: Iterable[TensorPlan]) -> list[TensorPlan]:
    """Order tensors as they are laid out: wide elements first, which aligns every tensor; then by name."""
    return sorted(plans, key=lambda plan: (-BITS[plan.dtype], plan.name))


def _header(plans: Sequence[TensorPlan], metadata: Mapping[str, str] | None) -> bytes:
    root: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for plan in plans:
        root[plan.name] = {
            "dtype": plan.dtype,
            "shape": list(plan.shape),
            "data_offsets": [at, at + plan.nbytes],
        }
        at += plan.nbytes
    text = json.dumps(root, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def planned_size(plans: Iterable[TensorPlan], metadata: Mapping[str, str] | None = None) -> int:
    """Bytes of the file that `write_planned` would write."""
    ordered = in_file_order(plans)
    return len(_header(ordered, metadata)) + sum(plan.nbytes for plan in ordered)


def write_planned(
    path: Path,
    plans: Iterable[TensorPlan],
    chunks: Callable[[TensorPlan], Iterable[NDArray[np.generic]]],
    metadata: Mapping[str, str] | None = None,
) -> int:
    """Write a file whose data are produced while it is written.

    Args:
        path: where; replaced as a whole when all is written.
        plans: the tensors; they are laid out by `in_file_order`.
        chunks: gives the data of a tensor, piece by piece, in row-major order.
        metadata: free text for `__metadata__`.

    Returns:
        The size of the file in bytes.

    Raises:
        ValueError: the pieces of a tensor do not add up to its planned size.
    """
    ordered = in_file_order(plans)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as out:
            out.write(_header(ordered, metadata))
            for plan in ordered:
                written = 0
                for piece in chunks(plan):
                    raw = np.ascontiguousarray(piece).reshape(-1).view(np.uint8)
                    out.write(raw.data)
                    written += raw.nbytes
                if written != plan.nbytes:
                    raise ValueError(f"{plan.name}: {written} bytes were produced, {plan.nbytes} planned")
            size = out.tell()
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return size


def write_safetensors(
    path: str | Path, tensors: Mapping[str, NDArray[np.generic]], metadata: Mapping[str, str] | None = None
) -> int:
    """Write arrays that are in memory; see `write_planned`. Returns the size of the file in bytes."""
    plans = [TensorPlan(name, name_of(array.dtype), array.shape) for name, array in tensors.items()]
    return write_planned(Path(path), plans, lambda plan: [tensors[plan.name]], metadata)
