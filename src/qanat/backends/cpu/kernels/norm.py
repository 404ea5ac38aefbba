"""RMSNorm and SwiGLU: one pass over each row."""

from __future__ import annotations

import numpy as np

from qanat.backends.cpu.kernels.jit import inlined, inner
from qanat.backends.cpu.kernels.share import share
from qanat.backends.cpu.simd import lane_sum, load_f32, splat_f32, store_f32, zero_f32
from qanat.backends.cpu.simd.functions import silu
from qanat.backends.cpu.simd.tails import load_first, store_first

__all__ = ["rms_norm", "root_factor", "sum_of_squares", "swiglu", "swiglu_piece"]

PIECE = 1024
"""Columns of SwiGLU that one task computes."""
ONE = np.float32(1)


@inlined
def sum_of_squares(x, at, n):
    """x[at]^2 + ... of n values: per lane in ascending order, then over the lanes."""
    total = zero_f32()
    whole = n - n % 16
    for i in range(0, whole, 16):
        v = load_f32(x, at + i)
        total = total + v * v
    if whole < n:
        v = load_first(x, at + whole, n - whole)
        total = total + v * v
    return lane_sum(total)


@inlined
def root_factor(x, at, n, eps):
    """1 / sqrt(mean of squares + eps)."""
    return ONE / np.sqrt(sum_of_squares(x, at, n) / np.float32(n) + eps)


@inner
def rms_norm(x, ldx, rows, n, weight, eps, out, thread, threads):
    """One thread's share of out = x / sqrt(mean(x^2) + eps) * weight, n rows.

    Args:
        x: float32, flat, row r at r * ldx.
        rows: int32, which rows of x; if empty, all n.
        weight: [H] float32, the factor itself: 1 + w has been formed before.
        eps: float32.
        out: [n, H] float32, flat.
    """
    width = len(weight)
    whole = width - width % 16
    first, stop = share(n, threads, thread)
    for row in range(first, stop):
        at = (np.int64(rows[row]) if len(rows) else row) * ldx
        to = row * width
        factor = splat_f32(root_factor(x, at, width, eps))
        for i in range(0, whole, 16):
            store_f32(out, to + i, load_f32(x, at + i) * factor * load_f32(weight, i))
        if whole < width:
            rest = width - whole
            y = load_first(x, at + whole, rest) * factor * load_first(weight, whole, rest)
            store_first(out, to + whole, y, rest)


@inner
def swiglu_piece(joint, at, up, n, out, to):
    """silu(gate) * up of n columns: the gate is at `at`, the other factor `up` columns behind it."""
    whole = n - n % 16
    for i in range(0, whole, 16):
        store_f32(out, to + i, silu(load_f32(joint, at + i)) * load_f32(joint, at + up + i))
    if whole < n:
        rest = n - whole
        y = silu(load_first(joint, at + whole, rest)) * load_first(joint, at + up + whole, rest)
        store_first(out, to + whole, y, rest)


@inner
def swiglu(joint, stride, up, n, width, out, thread, threads):
    """One thread's share of out = silu(gate) * up, both parts of the joint output of one linear layer.

    Args:
        joint: [n, stride] float32, flat; the gate is at column 0, the other factor at column `up`.
        width: columns of either part.
        out: [n, width] float32, flat.
    """
    pieces = (width + PIECE - 1) // PIECE
    first, stop = share(n * pieces, threads, thread)
    for task in range(first, stop):
        row, start = task // pieces, task % pieces * PIECE
        count = min(PIECE, width - start)
        swiglu_piece(joint, row * stride + start, up, count, out, row * width + start)
