"""Packing of weights into panels, and reading single rows back.

Layouts and meaning: `qanat.backends.cpu.packing`. Rows come as float32 [panels * 16, ld], with zeros behind.
"""

from __future__ import annotations

import numpy as np

from qanat.backends.cpu.kernels.jit import entry, inner
from qanat.backends.cpu.kernels.share import share
from qanat.backends.cpu.simd.arithmetic import as_i32, lane_max_i32, lane_sum, max_i32, round_to_i32, to_f32
from qanat.backends.cpu.simd.memory import load_f32, splat_f32, splat_i32, store_i32
from qanat.backends.cpu.simd.tile import SCALE_MANTISSA_GAP, SCALE_OFFSET

__all__ = ["NOT_FINITE", "TOO_LARGE", "pack_bf16", "pack_int8", "rows_bf16", "rows_int8"]

GROUP = 32
PANEL = 16
LANES = 16
INFINITY = 0x7F800000  # bits of a float32; larger magnitudes are NaN
STEPS = (127, 126, 125, 124)  # what a group's largest magnitude may become: the one that fits best is taken
NOT_FINITE, TOO_LARGE = -1, -2


@inner
def _scale_bits(bits):
    """A positive float32, given by its bits, as a scale: the nearest (ties to even), at least the smallest.

    Beyond the largest scale the result does not fit into 16 bits.
    """
    nearest = bits + (1 << (SCALE_MANTISSA_GAP - 1)) - 1 + ((bits >> SCALE_MANTISSA_GAP) & 1)
    return max((nearest - SCALE_OFFSET) >> SCALE_MANTISSA_GAP, 0)


@inner
def _quantise_group(x, at, scratch):
    """q of 32 weights to `scratch` (int32); the bits of their scale, or NOT_FINITE, or TOO_LARGE."""
    magnitude = splat_i32(np.int32(0x7FFFFFFF))
    a, b = load_f32(x, at), load_f32(x, at + LANES)
    most = np.empty(1, np.int32)
    most[0] = lane_max_i32(max_i32(as_i32(a) & magnitude, as_i32(b) & magnitude))
    if most[0] >= INFINITY:
        return NOT_FINITE
    number = most.view(np.float32)
    largest, best, least = number[0], 0, np.float32(np.inf)
    for step in STEPS:
        number[0] = largest / np.float32(step)
        bits = _scale_bits(np.int64(most[0]))
        if bits > 0xFFFF:
            return TOO_LARGE
        most[0] = (bits << SCALE_MANTISSA_GAP) + SCALE_OFFSET
        # At most 127: a scale is within 2^-11 of its number, and 127 * (1 + 2^-11) is rounded to 127.
        divisor = splat_f32(number[0])
        first, second = round_to_i32(a / divisor), round_to_i32(b / divisor)
        off, off_too = a - to_f32(first) * divisor, b - to_f32(second) * divisor
        error = lane_sum(off * off + off_too * off_too)
        if error < least:
            best, least = bits, error
            store_i32(scratch, 0, first)
            store_i32(scratch, LANES, second)
    return best


@inner
def _int8_panels(begin, end, x, ld, data, scales, first):
    groups = ld // GROUP
    words = data.view(np.int32)
    scratch, narrow = np.empty(GROUP, np.int32), np.empty(GROUP, np.int8)
    fours = narrow.view(np.int32)
    for p in range(begin, end):
        for g in range(groups):
            group = (first + p) * groups + g
            for r in range(PANEL):
                bits = _quantise_group(x, (p * PANEL + r) * ld + g * GROUP, scratch)
                if bits < 0:
                    return bits
                scales[group * PANEL + r] = bits
                for i in range(GROUP):
                    narrow[i] = scratch[i]
                for i in range(GROUP // 4):
                    words[(group * (GROUP // 4) + i) * PANEL + r] = fours[i]
    return 0


@entry
def pack_int8(thread, threads, x, panels, ld, data, scales, first, faults):
    """One thread's share of `panels` panels from panel `first` on, quantised.

    faults [threads] becomes NOT_FINITE or TOO_LARGE at this thread's place if a weight is, else 0.
    """
    begin, end = share(panels, threads, thread)
    faults[thread] = _int8_panels(begin, end, x, ld, data, scales, first)


@entry
def pack_bf16(thread, threads, x, panels, ld, data, first):
    """One thread's share of `panels` panels from `first` on, rounded (nearest, ties to even; NaN stays)."""
    bits = x.view(np.int32)
    begin, end = share(panels, threads, thread)
    for p in range(begin, end):
        for i in range(ld):
            for r in range(PANEL):
                word = np.int64(bits[(p * PANEL + r) * ld + i]) & 0xFFFFFFFF
                if (word & 0x7FFFFFFF) > INFINITY:
                    word |= 0x400000
                else:
                    word += 0x7FFF + ((word >> 16) & 1)
                data[((first + p) * ld + i) * PANEL + r] = word >> 16


@entry
def rows_int8(ids, data, scales, groups, inputs, out, ldo, first, stop):
    """Rows ids[first] .. ids[stop - 1] of the packed matrix to out (flat, n at n * ldo), times their scales.

    Exact in float32.
    """
    scale = np.empty(1, np.int32)
    for n in range(first, stop):
        panel, lane = np.int64(ids[n]) // PANEL, np.int64(ids[n]) % PANEL
        for g in range(groups):
            group = panel * groups + g
            scale[0] = (np.int64(scales[group * PANEL + lane]) << SCALE_MANTISSA_GAP) + SCALE_OFFSET
            factor = scale.view(np.float32)[0]
            for i in range(min(GROUP, inputs - g * GROUP)):
                q = data[(group * (GROUP // 4) + i // 4) * PANEL * 4 + lane * 4 + i % 4]
                out[n * ldo + g * GROUP + i] = np.float32(q) * factor


@entry
def rows_bf16(ids, data, in_padded, inputs, out, ldo, first, stop):
    """Rows ids[first] .. ids[stop - 1] of the packed matrix to out (flat, n at n * ldo). Exact."""
    bits = out.view(np.uint32)
    for n in range(first, stop):
        panel, lane = np.int64(ids[n]) // PANEL, np.int64(ids[n]) % PANEL
        for i in range(inputs):
            bits[n * ldo + i] = np.uint32(data[(panel * in_padded + i) * PANEL + lane]) << np.uint32(16)
