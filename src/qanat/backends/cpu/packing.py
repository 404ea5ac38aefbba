"""Packed weights: the matrix of a linear layer as the kernels read it, for any instruction set.

Sixteen output rows make a panel, lane = row, and panels are filled up with zero rows to a multiple of four.

int8: inputs filled up to groups of 32. A group of a row has one scale, and w = q * scale about, with
q = rint(w / scale). Of four scales, which make 127, 126, 125 or 124 of the largest magnitude, the one with
the least squared error is taken. A scale has 6 bits of exponent and 10 of mantissa, 2^-48 to 2^16: as
float32 its bits are (bits << 13) + (79 << 23). Flat layouts:
    data int8 [panels][groups][8][16 rows][4 inputs], scales uint16 [panels][groups][16 rows].
bf16: inputs filled up to a multiple of 16; values rounded to nearest even (published ones are exact):
    data uint16 (bfloat16 bits) [panels][inputs][16 rows].

An embedding that is tied to the head is packed once: `rows` reads single rows back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.kernels import packing as kernels
from qanat.backends.cpu.pool import Pool
from qanat.errors import CheckpointError

__all__ = ["Packed", "PackedBf16", "PackedInt8", "aligned_empty", "pack"]

F32 = NDArray[np.float32]
PANEL, GROUP, BAND = 16, 32, 64
CHUNK = 8 << 20
"""Bytes of float32 that are packed at a time: all the memory that packing needs besides its result."""


def aligned_empty(count: int, dtype: Any) -> NDArray[Any]:
    """`count` uninitialised elements that begin at a multiple of 64 bytes (a cache line)."""
    size = count * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype)


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


@dataclass(frozen=True)
class Packed(ABC):
    """What both forms have in common.

    Attributes:
        out_features: rows of the matrix (without those filled up).
        in_features: its columns, likewise.
        data: the flat array of weights. Writable, as Numba compiles anew for a read-only one.
    """

    out_features: int
    in_features: int
    data: NDArray[Any]

    @property
    def out_padded(self) -> int:
        """Rows including zero rows, a multiple of 64: the least width of a kernel's output."""
        return _up(self.out_features, BAND)

    @property
    def panels(self) -> int:
        """Panels of sixteen rows, a multiple of four."""
        return self.out_padded // PANEL

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays that make up this matrix, by the names of the constructor's arguments."""
        return {"data": self.data}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def rows(self, ids: NDArray[np.integer[Any]]) -> F32:
        """Rows `ids` [N] as float32 [N, in_features]: an embedding look-up. IndexError if out of range."""
        self.check_rows(ids)
        out = np.empty((len(ids), self.in_features), np.float32)
        self._read(np.ascontiguousarray(ids, np.int32), out)
        return out

    def check_rows(self, ids: NDArray[np.integer[Any]]) -> None:
        """IndexError if one of `ids` is out of range."""
        if len(ids) and not 0 <= int(np.min(ids)) <= int(np.max(ids)) < self.out_features:
            raise IndexError(f"a row id is not in 0 .. {self.out_features - 1}")

    def unpack(self) -> F32:
        """The whole matrix as float32 [out_features, in_features]."""
        return self.rows(np.arange(self.out_features))

    @abstractmethod
    def _read(self, ids: NDArray[np.int32], out: F32) -> None:
        """Rows `ids`, which are in range, as float32 into out [N, in_features]."""


@dataclass(frozen=True)
class PackedInt8(Packed):
    """Weights in 8 bits; `scales` is the flat array of their scales in 16 bits."""

    scales: NDArray[np.uint16]

    @property
    def groups(self) -> int:
        """Groups of 32 inputs."""
        return _up(self.in_features, GROUP) // GROUP

    @property
    def in_padded(self) -> int:
        """Inputs including zeros, a multiple of 32."""
        return self.groups * GROUP

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """`data` and `scales`."""
        return {"data": self.data, "scales": self.scales}

    def _read(self, ids: NDArray[np.int32], out: F32) -> None:
        flat, width = out.reshape(-1), self.in_features
        kernels.rows_int8(ids, self.data, self.scales, self.groups, width, flat, width, 0, len(ids))


@dataclass(frozen=True)
class PackedBf16(Packed):
    """Weights in bfloat16."""

    @property
    def in_padded(self) -> int:
        """Inputs including zeros, a multiple of 16."""
        return _up(self.in_features, PANEL)

    def _read(self, ids: NDArray[np.int32], out: F32) -> None:
        flat, width = out.reshape(-1), self.in_features
        kernels.rows_bf16(ids, self.data, self.in_padded, width, flat, width, 0, len(ids))


def pack(parts: Sequence[NDArray[Any]], mode: str, threads: int = 1) -> PackedInt8 | PackedBf16:
    """Pack the row-wise concatenation of `parts`, each float32, bfloat16 or float16 [out_i, in].

    Args:
        parts: matrices with the same number of columns; may be mapped from files, read once, in order.
        mode: "int8" or "bf16".
        threads: how many share the work; the result is the same.

    Raises:
        CheckpointError: int8, and a weight is NaN, infinite, or beyond 124 * 2^16 (8.1 million).
    """
    if mode not in ("int8", "bf16"):
        raise ValueError(f"mode must be 'int8' or 'bf16', not {mode!r}")
    columns = {part.shape[1] for part in parts}
    if len(columns) != 1:
        raise ValueError(f"parts must agree in their columns, not {sorted(columns)}")
    outputs, (inputs,) = sum(len(part) for part in parts), columns
    pool, faults = Pool(threads), np.zeros(threads, np.int64)
    padded, ld = _up(outputs, BAND), _up(inputs, GROUP if mode == "int8" else PANEL)
    if mode == "bf16":
        data = aligned_empty(padded * ld, np.uint16)
        for first, chunk in _chunks(parts, padded, ld):
            pool.run(kernels.pack_bf16, chunk.reshape(-1), len(chunk) // PANEL, ld, data, first // PANEL)
        return PackedBf16(outputs, inputs, data)
    data, scales = aligned_empty(padded * ld, np.int8), aligned_empty(padded * ld // GROUP, np.uint16)
    for first, chunk in _chunks(parts, padded, ld):
        rows, panels = chunk.reshape(-1), len(chunk) // PANEL
        pool.run(kernels.pack_int8, rows, panels, ld, data, scales, first // PANEL, faults)
        if (faults == kernels.NOT_FINITE).any():
            raise CheckpointError(f"a weight of a [{outputs}, {inputs}] matrix is not a finite number")
        if faults.any():
            raise CheckpointError(
                f"a weight of a [{outputs}, {inputs}] matrix is beyond 8 million, more than int8 can hold; "
                "choose weights='bf16'"
            )
    return PackedInt8(outputs, inputs, data, scales)


def _chunks(parts: Sequence[NDArray[Any]], padded: int, ld: int) -> Iterator[tuple[int, F32]]:
    """(first row, float32 [rows, ld]) of the concatenation filled up with zeros, a multiple of 16 rows each.

    The array is used again for the next chunk.
    """
    size = max(PANEL, CHUNK // (4 * ld) // PANEL * PANEL)
    buffer = np.zeros((min(size, padded), ld), np.float32)
    pieces = (part[at : at + size] for part in parts for at in range(0, len(part), size))
    piece = next(pieces, None)
    for first in range(0, padded, size):
        chunk = buffer[: min(size, padded - first)]
        row = 0
        while row < len(chunk) and piece is not None:
            count = min(len(piece), len(chunk) - row)
            _to_float32(piece[:count], chunk[row : row + count])
            row += count
            piece = piece[count:] if count < len(piece) else next(pieces, None)
        chunk[row:] = 0
        yield first, chunk


def _to_float32(part: NDArray[Any], out: F32) -> None:
    """Into the first columns of `out`; exact."""
    if part.dtype == ml_dtypes.bfloat16:
        bits = out.view(np.uint32)[:, : part.shape[1]]
        np.left_shift(part.view(np.uint16), 16, out=bits, dtype=np.uint32)
    else:
        out[:, : part.shape[1]] = part
