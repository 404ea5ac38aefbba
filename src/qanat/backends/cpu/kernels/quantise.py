"""Activations in 8 bits: each row in groups of 32, one float32 scale a group.

For the numbers x of a group, with a = max |x|, every step in float32:

    scale = a * (1/127);   q = rint(x * (127 / a)) in [-127, 127], or 0 where a < 2^-119

A NaN or an infinity makes its group's scale one, so that it reaches the output and is noticed there.
Layout: q [N, ldq] as `qanat.backends.cpu.simd.dot` wants it, scales float32 [N, groups], sums int32
[N, groups]: 128 times the sum of q. The last group of a row is filled up with zeros.
"""

from __future__ import annotations

import numpy as np

from qanat.backends.cpu.kernels.jit import inner
from qanat.backends.cpu.kernels.norm import root_factor, swiglu_piece
from qanat.backends.cpu.kernels.share import share
from qanat.backends.cpu.simd.arithmetic import (
    as_i32,
    lane_max_i32,
    lane_sum,
    max_i32,
    round_to_i32,
    to_f32,
    vmax,
    vmin,
)
from qanat.backends.cpu.simd.dot import store_activations
from qanat.backends.cpu.simd.memory import load_f32, splat_f32, splat_i32

__all__ = ["quantise", "quantise_row", "swiglu_quantise"]

GROUP = 32
LANES = 16
LEAST = np.float32(2.0**-119)  # below this 127 / a would overflow
PIECE = 512
"""Numbers that one task quantises."""
MOST = np.float32(127)
PER_MOST = np.float32(1 / 127)


@inner
def quantise_row(x, at, groups, q, q_at, scales, sums, s_at):
    """Quantise groups * 32 numbers of x."""
    magnitude = splat_i32(np.int32(0x7FFFFFFF))
    bounds = np.empty(1, np.int32)
    for g in range(groups):
        a, b = load_f32(x, at + g * GROUP), load_f32(x, at + g * GROUP + LANES)
        # As integers the bits of magnitudes are ordered like the numbers, and NaN is the largest.
        bounds[0] = lane_max_i32(max_i32(as_i32(a) & magnitude, as_i32(b) & magnitude))
        most = bounds.view(np.float32)[0]
        inverse = MOST / most if most >= LEAST else np.float32(0)
        first, second = _rounded(a, inverse), _rounded(b, inverse)
        store_activations(q, q_at + g * GROUP, first)
        store_activations(q, q_at + g * GROUP + LANES, second)
        scales[s_at + g] = most * PER_MOST
        sums[s_at + g] = np.int32(lane_sum(to_f32(first + second))) * 128


@inner
def _rounded(x, inverse):
    scaled = vmax(x * splat_f32(inverse), splat_f32(-MOST))
    return round_to_i32(vmin(scaled, splat_f32(MOST)))


@inner
def quantise(x, ldx, n, inputs, gain, eps, q, ldq, scales, sums, thread, threads):
    """One thread's share of n rows of x (flat, row r at r * ldx), after RMSNorm unless `gain` is empty.

    A row is cut into pieces, so that threads share even a single one; each computes its norm for itself.
    """
    groups, pieces = (inputs + GROUP - 1) // GROUP, (inputs + PIECE - 1) // PIECE
    first, stop = share(n * pieces, threads, thread)
    piece, last, factor = np.empty(PIECE, np.float32), -1, np.float32(1)
    for task in range(first, stop):
        r, start = task // pieces, task % pieces * PIECE
        at, count = r * ldx + start, min(PIECE, inputs - start)
        if len(gain):
            if r != last:
                factor, last = root_factor(x, r * ldx, inputs, eps), r
            for i in range(count):
                piece[i] = x[at + i] * factor * gain[start + i]
        else:
            for i in range(count):
                piece[i] = x[at + i]
        _quantise_piece(piece, count, q, r * ldq + start, scales, sums, r * groups + start // GROUP)


@inner
def swiglu_quantise(joint, stride, up, n, width, q, ldq, scales, sums, thread, threads):
    """One thread's share of silu(gate) * up (see `kernels.norm`), quantised and not written anywhere else."""
    groups, pieces = (width + GROUP - 1) // GROUP, (width + PIECE - 1) // PIECE
    first, stop = share(n * pieces, threads, thread)
    piece = np.empty(PIECE, np.float32)
    for task in range(first, stop):
        r, start = task // pieces, task % pieces * PIECE
        count = min(PIECE, width - start)
        swiglu_piece(joint, r * stride + start, up, count, piece, 0)
        _quantise_piece(piece, count, q, r * ldq + start, scales, sums, r * groups + start // GROUP)


@inner
def _quantise_piece(piece, count, q, q_at, scales, sums, s_at):
    groups = (count + GROUP - 1) // GROUP
    for i in range(count, groups * GROUP):
        piece[i] = 0
    quantise_row(piece, 0, groups, q, q_at, scales, sums, s_at)
