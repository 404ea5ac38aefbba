"""Activations in 8 bits: each row in groups of 32, one float32 scale a group.

For the numbers x of a group, with a = max |x|, every step in float32:

    scale = a * (1/127);   q = rint(x * (127 / a)) in [-127, 127], or 0 where a < 2^-119

A NaN or an infinity makes its group's scale one, so that it reaches the output and is noticed there.
Layout: q [N, ldq] as `qanat.backends.cpu.simd.dot` wants it, scales float32 [N, groups], sums int32
[N, groups]: 128 times the sum of q. The last group of a row is filled up with zeros.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from qanat.backends.cpu.kernels.jit import inner, parallel
from qanat.backends.cpu.kernels.norm import root_factor
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

__all__ = ["norm_quantise", "quantise_row"]

GROUP = 32
LANES = 16
LEAST = np.float32(2.0**-119)  # below this 127 / a would overflow
SERIAL = 4  # rows below which a parallel region costs more than it saves
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
def _share(begin, end, x, ldx, inputs, weight, eps, q, ldq, scales, sums):
    groups = (inputs + GROUP - 1) // GROUP
    if len(weight) == 0 and inputs == groups * GROUP:
        for r in range(begin, end):
            quantise_row(x, r * ldx, groups, q, r * ldq, scales, sums, r * groups)
        return
    row = np.zeros(groups * GROUP, np.float32)
    for r in range(begin, end):
        at = r * ldx
        if len(weight):
            factor = root_factor(x, at, inputs, eps)
            for i in range(inputs):
                row[i] = x[at + i] * factor * weight[i]
        else:
            for i in range(inputs):
                row[i] = x[at + i]
        quantise_row(row, 0, groups, q, r * ldq, scales, sums, r * groups)


@parallel
def norm_quantise(x, ldx, n, inputs, weight, eps, q, ldq, scales, sums, threads):
    """Quantise n rows of x (flat, row r at r * ldx), after RMSNorm unless `weight` (its gain) is empty."""
    if threads == 1 or n < SERIAL:
        _share(0, n, x, ldx, inputs, weight, eps, q, ldq, scales, sums)
    else:
        for t in prange(threads):
            begin, end = share(n, threads, t)
            _share(begin, end, x, ldx, inputs, weight, eps, q, ldq, scales, sums)
