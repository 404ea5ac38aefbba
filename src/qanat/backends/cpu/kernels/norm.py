"""RMSNorm and SwiGLU: one pass over each row."""

from __future__ import annotations

import numpy as np
from numba import prange

from qanat.backends.cpu.kernels.jit import inlined, inner, parallel
from qanat.backends.cpu.kernels.share import share
from qanat.backends.cpu.simd import lane_sum, load_f32, splat_f32, store_f32, zero_f32
from qanat.backends.cpu.simd.functions import silu
from qanat.backends.cpu.simd.tails import load_first, store_first

__all__ = ["rms_norm", "rms_norm_rows", "root_factor", "sum_of_squares", "swiglu"]

SERIAL = 1 << 15
"""Elements below which opening a parallel region costs more than it saves."""
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
def rms_norm_rows(x, weight, width, eps, out, first, stop):
    """Rows first .. stop-1 of `rms_norm`."""
    whole = width - width % 16
    for row in range(first, stop):
        at = row * width
        factor = splat_f32(root_factor(x, at, width, eps))
        for i in range(0, whole, 16):
            store_f32(out, at + i, load_f32(x, at + i) * factor * load_f32(weight, i))
        if whole < width:
            rest = width - whole
            y = load_first(x, at + whole, rest) * factor * load_first(weight, whole, rest)
            store_first(out, at + whole, y, rest)


@parallel
def rms_norm(x, weight, eps, out, threads):
    """out = x / sqrt(mean(x^2) + eps) * weight.

    Args:
        x, out: [N, H] float32, flat; they may be the same array.
        weight: [H] float32, the factor itself: 1 + w has been formed before.
        eps: float32.
    """
    width = len(weight)
    rows = len(x) // width
    if len(x) < SERIAL or threads == 1:
        rms_norm_rows(x, weight, width, eps, out, 0, rows)
    else:
        for thread in prange(threads):
            first, stop = share(rows, threads, thread)
            rms_norm_rows(x, weight, width, eps, out, first, stop)


@inner
def _swiglu_pieces(joint, stride, up, width, out, first, stop):
    pieces = (width + PIECE - 1) // PIECE
    for task in range(first, stop):
        row, start = task // pieces, task % pieces * PIECE
        n = min(PIECE, width - start)
        at, to = row * stride + start, row * width + start
        whole = n - n % 16
        for i in range(0, whole, 16):
            store_f32(out, to + i, silu(load_f32(joint, at + i)) * load_f32(joint, at + up + i))
        if whole < n:
            gate, other = (
                load_first(joint, at + whole, n - whole),
                load_first(joint, at + up + whole, n - whole),
            )
            store_first(out, to + whole, silu(gate) * other, n - whole)


@parallel
def swiglu(joint, stride, up, width, out, threads):
    """out = silu(gate) * up, both parts of the joint output of one linear layer.

    Args:
        joint: [N, stride] float32, flat; the gate is at column 0, the other factor at column `up`.
        width: columns of either part.
        out: [N, width] float32, flat.
    """
    rows = len(out) // width
    tasks = rows * ((width + PIECE - 1) // PIECE)
    if len(out) < SERIAL // 8 or threads == 1:
        _swiglu_pieces(joint, stride, up, width, out, 0, tasks)
    else:
        for thread in prange(threads):
            first, stop = share(tasks, threads, thread)
            _swiglu_pieces(joint, stride, up, width, out, first, stop)
