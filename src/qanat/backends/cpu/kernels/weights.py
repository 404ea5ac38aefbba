"""The weights that tokens are drawn by (`qanat.backends.common.weights`), and their sum over a row.

The loops have no step across iterations but whole-number sums, so LLVM makes vectors of them by itself.
"""

from __future__ import annotations

import numpy as np

from qanat.backends.common.weights import LN2_HIGH, LN2_LOW, LOG2_E, TAYLOR, UNIT
from qanat.backends.cpu.kernels.jit import inlined, inner
from qanat.backends.cpu.simd import LANES, lane_max, load_f32

__all__ = ["CHUNK", "mass_of", "weighs_nothing", "weight"]

CHUNK = 1024
"""Logits that are looked at together: their weights stay in the first cache."""
LOWEST = -40.0  # exp(-40) * UNIT rounds to zero
NOTHING = np.float32(-32)  # so does exp(-32) * UNIT
MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to a whole number, held in the low bits
MAGIC_BITS = np.int64(0x4338000000000000)
UNIT_BIAS = np.int64(1023 + int(np.log2(UNIT)))
C13, C12, C11, C10, C9, C8, C7, C6, C5, C4, C3, C2, C1, C0 = TAYLOR


@inlined
def weight(d):
    """exp(d) * UNIT rounded to a whole number, float64 d <= 0 -> int64: `defined_exp` without its tail."""
    x = max(d, LOWEST)
    shifted = x * LOG2_E + MAGIC
    k = shifted - MAGIC
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    s = C13 * r + C12
    s = s * r + C11
    s = s * r + C10
    s = s * r + C9
    s = s * r + C8
    s = s * r + C7
    s = s * r + C6
    s = s * r + C5
    s = s * r + C4
    s = s * r + C3
    s = s * r + C2
    s = s * r + C1
    s = s * r + C0
    power = (np.float64(shifted).view(np.int64) - MAGIC_BITS + UNIT_BIAS) << np.int64(52)
    scaled = s * np.int64(power).view(np.float64)  # exact
    return np.float64(scaled + MAGIC).view(np.int64) - MAGIC_BITS


@inlined
def weighs_nothing(maxima, first, divisor, largest):
    """Whether all weights of the chunk that begins at `first` are zero, seen by its strands' maxima."""
    return lane_max(load_f32(maxima, first // CHUNK * LANES)) / divisor - largest < NOTHING


@inner
def mass_of(x, maxima, largest):
    """The sum of the weights of x, float32 [n], relative to `largest`; maxima: those of its strands."""
    top = np.float64(largest)
    total = np.int64(0)
    for first in range(0, len(x), CHUNK):
        if weighs_nothing(maxima, first, np.float32(1), largest):
            continue
        part = x[first : min(first + CHUNK, len(x))]
        for i in range(len(part)):
            total += weight(np.float64(part[i]) - top)
    return total
