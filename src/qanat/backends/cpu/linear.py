"""Linear layers for the operations: rows of float32 in, rows of float32 out, in either form of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.kernels.linear_bf16 import linear_bf16
from qanat.backends.cpu.kernels.linear_int8 import linear_int8
from qanat.backends.cpu.kernels.quantise import norm_quantise
from qanat.backends.cpu.packing import F32, GROUP, PackedBf16, PackedInt8, aligned_empty
from qanat.backends.cpu.simd.dot import ACTIVATION

__all__ = ["Quantised", "multiply", "multiply_quantised", "quantise"]

NOTHING = np.empty(0, np.float32)
APART = 32
"""Elements between quantised rows: rows a power of two apart would evict one another from the cache."""


@dataclass(frozen=True)
class Quantised:
    """Room for `capacity` rows of `in_features` quantised activations (see `kernels.quantise`)."""

    capacity: int
    in_features: int
    q: NDArray[Any]  # flat, row r at r * ldq
    scales: F32  # flat [capacity, groups]
    sums: NDArray[np.int32]  # flat [capacity, groups]

    @classmethod
    def empty(cls, capacity: int, in_features: int) -> Quantised:
        """Uninitialised."""
        groups = -(-in_features // GROUP)
        return cls(
            capacity,
            in_features,
            aligned_empty(capacity * (groups * GROUP + APART), ACTIVATION),
            aligned_empty(capacity * groups, np.float32),
            aligned_empty(capacity * groups, np.int32),
        )

    @property
    def ldq(self) -> int:
        """Elements from one row of q to the next."""
        return -(-self.in_features // GROUP) * GROUP + APART


def quantise(x: F32, into: Quantised, threads: int, *, norm: F32 = NOTHING, eps: float = 0.0) -> None:
    """Quantise the first `into.in_features` columns of x, contiguous float32 [N, ldx].

    With `norm` [in_features], the gain of an RMSNorm, the rows are normed first.
    """
    assert len(x) <= into.capacity
    assert x.shape[1] >= into.in_features
    assert x.flags.c_contiguous
    norm_quantise(
        x.reshape(-1), x.shape[1], len(x), into.in_features, norm, np.float32(eps),
        into.q, into.ldq, into.scales, into.sums, threads,
    )  # fmt: skip


def multiply_quantised(
    x: Quantised, weight: PackedInt8, out: F32, threads: int, residual: F32 | None = None
) -> None:
    """out = x W^T for the first len(out) rows of x, or residual + x W^T.

    out: contiguous float32 [N, ldo], ldo >= weight.out_padded; columns from out_features on become zero
    (with a residual: keep its values), those from out_padded on stay as they were. residual: like out, and
    another array.
    """
    assert x.in_features == weight.in_features
    assert len(out) <= x.capacity
    linear_int8(
        x.q, x.ldq, x.scales, x.sums, len(out), weight.data, weight.scales, weight.groups,
        _flat(out, weight.out_padded), out.shape[1], _residual(out, residual), threads,
    )  # fmt: skip


def multiply(x: F32, weight: PackedBf16, out: F32, threads: int, residual: F32 | None = None) -> None:
    """The same with bfloat16 weights; x is contiguous float32 [N, ldx], of which the first columns count."""
    assert x.shape[1] >= weight.in_features
    assert len(x) == len(out)
    assert x.flags.c_contiguous
    linear_bf16(
        x.reshape(-1), x.shape[1], len(x), weight.in_features, weight.data, weight.panels,
        _flat(out, weight.out_padded), out.shape[1], _residual(out, residual), threads,
    )  # fmt: skip


def _flat(out: F32, width: int) -> F32:
    assert out.shape[1] >= width
    assert out.flags.c_contiguous
    return out.reshape(-1)


def _residual(out: F32, residual: F32 | None) -> F32:
    if residual is None:
        return NOTHING
    assert residual.shape == out.shape
    assert residual.flags.c_contiguous
    assert residual is not out
    return residual.reshape(-1)
