"""Linear layers: y = x W^T, one row at a time.

`einsum` is used rather than BLAS on purpose. A BLAS may pick another kernel, and so another order of sums,
for one row than for many, or for another number of threads; NumPy's own inner product does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from qanat.backends.reference.elementwise import F32

__all__ = ["Linear", "to_float32"]

BLOCK = 128
"""Output rows per product: a block stays in cache while every row of x is multiplied by it."""


def to_float32(values: NDArray[Any]) -> F32:
    """Exact for bfloat16 and float16; a float32 array is returned as it is."""
    return np.ascontiguousarray(values, dtype=np.float32)


class Linear:
    """The row-wise concatenation of weight matrices [out_i, in], held as float32 or as bfloat16.

    In bfloat16 mode the values are rounded to bfloat16 (published weights already are, so they stay mapped
    from the file without a copy) and turned into float32 block by block at each use: half the memory, the
    same results bit for bit, slower.
    """

    def __init__(self, parts: Sequence[NDArray[Any]], *, bfloat16: bool) -> None:
        if bfloat16:
            self.parts = [np.asarray(part, dtype=ml_dtypes.bfloat16) for part in parts]
        else:
            self.parts = [to_float32(part) for part in parts]
        self.out_features = sum(len(part) for part in self.parts)
        self.in_features: int = self.parts[0].shape[1]

    def __call__(self, x: F32) -> F32:
        """[N, in] -> [N, out]; x is contiguous float32."""
        y = np.empty((len(x), self.out_features), np.float32)
        start = 0
        for part in self.parts:
            for at in range(0, len(part), BLOCK):
                block = to_float32(part[at : at + BLOCK])
                stop = start + len(block)
                for row in range(len(x)):
                    np.einsum("oi,i->o", block, x[row], out=y[row, start:stop])
                start = stop
        return y

    def rows(self, ids: NDArray[np.int32]) -> F32:
        """Rows `ids` of the matrix as float32 [N, in]: an embedding look-up."""
        (table,) = self.parts
        return to_float32(table[ids])
