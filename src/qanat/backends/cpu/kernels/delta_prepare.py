"""What the delta rule reads of each token: convolution, unit vectors, gates; and the window that is left.

A prepared piece of a key head is a buffer of PIECE rows [q | k | v of each value head], each part padded with
zeros; then for each of its value heads PIECE decays and PIECE betas; then PIECE products q k. The delta rule
leaves its outputs in the places of v.
"""

from __future__ import annotations

import numpy as np

from qanat.backends.cpu.kernels.jit import inlined, inner
from qanat.backends.cpu.kernels.norm import sum_of_squares
from qanat.backends.cpu.simd import lane_sum, load_f32, prefetch, splat_f32, store_f32, zero_f32
from qanat.backends.cpu.simd.functions import exp, sigmoid, silu, softplus
from qanat.backends.cpu.simd.tails import load_first, splat_at, store_first

__all__ = ["BLOCK", "PIECE", "conv_channels", "piece_size", "prepare", "round_up", "row_size", "shift_window"]

BLOCK = 32
"""Columns of a block of the recurrent matrix, as in `DeltaState`."""
PIECE = 64
"""Tokens prepared at a time: their q, k and v stay in the second-level cache."""
USUAL = 4
"""Taps of the convolution in every published model: these have a loop of their own."""
AHEAD = 4
"""Rows of a prompt that are asked for before their turn; a row lies on pages of its own."""
ZERO, ONE, L2_EPS = np.float32(0), np.float32(1), np.float32(1e-6)


@inlined
def round_up(n, multiple):
    """The next multiple."""
    return (n + multiple - 1) // multiple * multiple


@inlined
def row_size(dk, dv, groups):
    """Floats of one prepared token."""
    return 2 * round_up(dk, 16) + groups * round_up(dv, BLOCK)


@inlined
def piece_size(dk, dv, groups):
    """Floats of a prepared piece."""
    return PIECE * (row_size(dk, dv, groups) + 2 * groups + 1)


@inlined
def conv_channels(sizes):
    """conv_dim: the channels of q, k and v."""
    return 2 * sizes[0] * sizes[2] + sizes[1] * sizes[3]


@inner
def _four_taps(past, at, step, ahead, joint, newest, constants, tap, channels, y, to, n):
    """silu of four taps over n channels, whole vectors: three rows of `past` and the newest."""
    for i in range(0, n, 16):
        prefetch(joint, newest + ahead + i)
        total = zero_f32() + load_f32(past, at + i) * load_f32(constants, tap + i)
        total = total + load_f32(past, at + step + i) * load_f32(constants, tap + channels + i)
        total = total + load_f32(past, at + 2 * step + i) * load_f32(constants, tap + 2 * channels + i)
        total = total + load_f32(joint, newest + i) * load_f32(constants, tap + 3 * channels + i)
        store_f32(y, to + i, silu(total))


@inner
def _conv(joint, row, stride, source, window, constants, channels, first, kernel, t, y, to, n, padded):
    """silu(sum over taps, ascending) of channels first .. first+n-1 of token t, then zeros up to `padded`.

    `row` is the place of channel 0 in the sequence's row 0. Tokens before that row come from the window at
    `window` in `source`, and are zero if that is negative.
    """
    begin = max(0, kernel - 1 - t)
    older = begin if window >= 0 else 0  # taps that reach into the window
    now = row + (t - kernel + 1) * stride + first
    before, newest = window + t * channels + first, row + t * stride + first
    done = 0
    if kernel == USUAL and begin == 0:
        done = n - n % 16
        _four_taps(joint, now, stride, AHEAD * stride, joint, newest, constants, first, channels, y, to, done)
    elif kernel == USUAL and older == USUAL - 1:
        done = n - n % 16
        _four_taps(source, before, channels, 0, joint, newest, constants, first, channels, y, to, done)
    for i in range(done, n, 16):
        count = min(16, n - i)
        total = zero_f32()
        for m in range(older):
            x = load_first(source, before + m * channels + i, count)
            total = total + x * load_first(constants, m * channels + first + i, count)
        for m in range(begin, kernel):
            x = load_first(joint, now + m * stride + i, count)
            total = total + x * load_first(constants, m * channels + first + i, count)
        store_f32(y, to + i, silu(total))  # silu(0) is the 0 that pads
    for i in range(round_up(n, 16), padded, 16):
        store_f32(y, to + i, zero_f32())


@inner
def _unit_vectors(y, q, k, n, scale):
    """q and k over their lengths in place, q times `scale`; their product is returned."""
    q_factor = splat_f32(ONE / np.sqrt(sum_of_squares(y, q, n) + L2_EPS))
    k_factor = splat_f32(ONE / np.sqrt(sum_of_squares(y, k, n) + L2_EPS))
    total = zero_f32()
    for i in range(0, n, 16):
        unit_q = load_f32(y, q + i) * q_factor * splat_f32(scale)
        unit_k = load_f32(y, k + i) * k_factor
        store_f32(y, q + i, unit_q)
        store_f32(y, k + i, unit_k)
        total = total + unit_q * unit_k
    return lane_sum(total)


@inner
def _gates(joint, sizes, constants, row, tokens, head, y, to):
    """exp(g), the factor of decay, at `to`, and beta behind it, for rows row .. row+tokens-1."""
    stride, b, a = sizes[5], sizes[8] + head, sizes[9] + head
    a_log = sizes[4] * conv_channels(sizes) + head
    rate, bias = exp(splat_at(constants, a_log)), splat_at(constants, a_log + sizes[1])
    for i in range(0, tokens, 16):
        for j in range(16):
            there = i + j < tokens
            at = (row + i + j) * stride
            y[to + i + j] = joint[at + a] if there else ZERO
            y[to + PIECE + i + j] = joint[at + b] if there else ZERO
        g = (zero_f32() - rate) * softplus(load_f32(y, to + i) + bias)
        store_f32(y, to + i, exp(g))
        store_f32(y, to + PIECE + i, sigmoid(load_f32(y, to + PIECE + i)))


@inner
def prepare(joint, sizes, constants, source, window, row, t0, t1, kh, y, to):
    """The piece of key head kh for tokens t0 .. t1-1 of the sequence whose rows begin at `row`."""
    key_heads, value_heads, dk, dv = sizes[0], sizes[1], sizes[2], sizes[3]
    kernel, stride, at = sizes[4], sizes[5], row * sizes[5] + sizes[6]
    groups, kd, channels = value_heads // key_heads, key_heads * dk, conv_channels(sizes)
    dkp, dvp = round_up(dk, 16), round_up(dv, BLOCK)
    scale = np.float32(np.float64(dk) ** -0.5)
    gates = to + PIECE * row_size(dk, dv, groups)
    products = gates + 2 * groups * PIECE
    for g in range(groups):
        _gates(joint, sizes, constants, row + t0, t1 - t0, kh * groups + g, y, gates + g * 2 * PIECE)
    for t in range(t0, t1):
        q = to
        for part in range(2 + groups):  # q, k, then each v
            first = part * kd + kh * dk if part < 2 else 2 * kd + (kh * groups + part - 2) * dv
            n, padded = (dk, dkp) if part < 2 else (dv, dvp)
            _conv(joint, at, stride, source, window, constants, channels, first, kernel, t, y, to, n, padded)
            to += padded
        y[products + t - t0] = _unit_vectors(y, q, q + dkp, dkp, scale)


@inner
def shift_window(joint, sizes, old, memory, window, dst, row, tokens, kh):
    """Leave the last Kc-1 raw rows of key head kh's channels in slot dst; ascending, so in place is safe."""
    key_heads, value_heads, dk, dv = sizes[0], sizes[1], sizes[2], sizes[3]
    kernel, stride, at = sizes[4], sizes[5], row * sizes[5] + sizes[6]
    groups, kd, channels = value_heads // key_heads, key_heads * dk, conv_channels(sizes)
    for part in range(3):
        first = part * kd + kh * dk if part < 2 else 2 * kd + kh * groups * dv
        n = dk if part < 2 else groups * dv
        for m in range(kernel - 1):
            to = (dst * (kernel - 1) + m) * channels + first
            if m + tokens >= kernel - 1:
                _copy(joint, at + (tokens - (kernel - 1) + m) * stride + first, window, to, n)
            elif memory >= 0:
                _copy(old, memory + (m + tokens) * channels + first, window, to, n)
            else:
                for i in range(n):
                    window[to + i] = ZERO


@inner
def _copy(x, at, y, to, n):
    whole = n - n % 16
    for i in range(0, whole, 16):
        store_f32(y, to + i, load_f32(x, at + i))
    if whole < n:
        store_first(y, to + whole, load_first(x, at + whole, n - whole), n - whole)
