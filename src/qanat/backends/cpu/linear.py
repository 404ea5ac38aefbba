"""Linear layers as instructions: rows of float32 in, rows of float32 out, in either form of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.packing import F32, GROUP, PackedBf16, PackedInt8, aligned_empty
from qanat.backends.cpu.simd.dot import ACTIVATION, SPREADS
from qanat.backends.cpu.tape import Operation, Tape

__all__ = ["NOTHING", "Quantised", "multiply", "multiply_quantised", "quantise", "swiglu_quantise"]

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

    def numbers(self) -> F32:
        """What the rows stand for, float32 [capacity, in_features], a copy."""
        q = self.q.reshape(self.capacity, self.ldq)[:, :-APART].reshape(self.capacity, -1, 4)
        if SPREADS:  # fours are stored as `simd.dot` wants them
            q = q[..., [0, 2, 1, 3]]
        groups = q.reshape(self.capacity, -1, GROUP) * self.scales.reshape(self.capacity, -1, 1)
        return groups.reshape(self.capacity, -1)[:, : self.in_features].astype(np.float32)


def quantise(tape: Tape, x: F32, into: Quantised, *, gain: F32 = NOTHING, eps: float = 0.0) -> None:
    """Quantise the first `into.in_features` columns of x, contiguous float32 [N, ldx].

    With `gain` [in_features], the factors of an RMSNorm, the rows are normed first.
    """
    assert len(x) <= into.capacity
    assert x.shape[1] >= into.in_features
    tape.add(
        Operation.QUANTISE, x, x.shape[1], len(x), into.in_features, gain, np.float32(eps),
        into.q, into.ldq, into.scales, into.sums,
    )  # fmt: skip


def swiglu_quantise(tape: Tape, joint: F32, up: int, into: Quantised) -> None:
    """Quantise silu(gate) * up, columns of joint [N, stride]: the gate at 0, the other factor at `up`."""
    assert len(joint) <= into.capacity
    tape.add(
        Operation.SWIGLU, joint, joint.shape[1], up, len(joint), into.in_features,
        into.q, into.ldq, into.scales, into.sums,
    )  # fmt: skip


def multiply_quantised(
    tape: Tape, x: Quantised, weight: PackedInt8, out: F32, residual: F32 | None = None
) -> None:
    """out = x W^T for the first len(out) rows of x, or residual + x W^T.

    out: contiguous float32 [N, ldo], ldo >= weight.out_padded; columns from out_features on become zero
    (with a residual: keep its values), those from out_padded on stay as they were. residual: like out, and
    another array.
    """
    assert x.in_features == weight.in_features
    assert len(out) <= x.capacity
    assert out.shape[1] >= weight.out_padded
    tape.add(
        Operation.LINEAR, x.q, x.ldq, x.scales, x.sums, len(out), weight.data, weight.scales, weight.groups,
        out, out.shape[1], _residual(out, residual),
    )  # fmt: skip
    tape.products += len(out) * weight.data.size


def multiply(tape: Tape, x: F32, weight: PackedBf16, out: F32, residual: F32 | None = None) -> None:
    """The same with bfloat16 weights; x is contiguous float32 [N, ldx], of which the first columns count."""
    assert x.shape[1] >= weight.in_features
    assert len(x) == len(out)
    assert out.shape[1] >= weight.out_padded
    tape.add(
        Operation.LINEAR, x, x.shape[1], len(x), weight.in_features, weight.data, weight.panels,
        out, out.shape[1], _residual(out, residual),
    )  # fmt: skip
    tape.products += len(out) * weight.data.size


def _residual(out: F32, residual: F32 | None) -> F32:
    if residual is None:
        return NOTHING
    assert residual.shape == out.shape
    assert not np.may_share_memory(residual, out)
    return residual
