"""Named tensors of a checkpoint, as the rooms above see them: nothing is read before `array()`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qanat.checkpoint.dtypes import NUMPY
from qanat.checkpoint.safetensors import SafetensorsFile

__all__ = ["StackedExperts", "TensorView"]


@dataclass(frozen=True)
class TensorView:
    """One tensor in one file, under its published name."""

    name: str
    dtype: np.dtype[np.generic]  # ml_dtypes.bfloat16 for BF16
    shape: tuple[int, ...]
    source: SafetensorsFile
    stored_name: str  # as the file calls it

    @classmethod
    def of(cls, name: str, source: SafetensorsFile, stored_name: str) -> TensorView:
        """View the tensor `stored_name` of a file under its published name."""
        entry = source.entries[stored_name]
        return cls(name, NUMPY[entry.dtype], entry.shape, source, stored_name)

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def file(self) -> Path:
        """The file that holds it."""
        return self.source.path

    def array(self) -> NDArray[np.generic]:
        """Give the elements as a read-only array [*shape], mapped from the file (copied if unaligned)."""
        return self.source.array(self.stored_name)


@dataclass(frozen=True)
class StackedExperts(TensorView):
    """A block of experts that the file stores one by one, seen as the published stacked tensor.

    `array()` copies: [E, 2 * Im, H] from the gate and up matrices, or [E, H, Im] from the down matrices.
    """

    parts: Sequence[Sequence[TensorView]] = ()  # per expert: the matrices to put below one another

    @classmethod
    def stack(cls, name: str, parts: Sequence[Sequence[TensorView]]) -> StackedExperts:
        """Stack per-expert matrices of one dtype; the shapes were checked before."""
        first = parts[0][0]
        rows = sum(part.shape[0] for part in parts[0])
        return cls(
            name, first.dtype, (len(parts), rows, first.shape[1]), first.source, first.stored_name, parts
        )

    def array(self) -> NDArray[np.generic]:
        """Give the elements as a read-only array [E, rows, columns]; this copies."""
        stacked: NDArray[np.generic] = np.empty(self.shape, self.dtype)
        for expert, matrices in enumerate(self.parts):
            at = 0
            for matrix in matrices:
                stacked[expert, at : at + matrix.shape[0]] = matrix.array()
                at += matrix.shape[0]
        stacked.flags.writeable = False
        return stacked
