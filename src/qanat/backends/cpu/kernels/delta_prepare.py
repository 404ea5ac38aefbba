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

__all__ = [
    "BLOCK",
    "PIECE",
    "conv_channels",
    "piece_size",
    "prepare",
    "prepare_one",
    "round_up",
    "row_size",
    "shift_window",
    "stepping",
]

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


@inlined
def _four_taps(x0, x1, x2, x3, constants, tap, channels):
    """silu of the sum over four taps, ascending."""
    total = zero_f32() + x0 * load_f32(constants, tap)
    total = total + x1 * load_f32(constants, tap + channels)
    total = total + x2 * load_f32(constants, tap + 2 * channels)
    return silu(total + x3 * load_f32(constants, tap + 3 * channels))


@inner
def _conv_rows(joint, now, stride, constants, first, channels, y, to, step, tokens, n, padded):
    """`_conv` of several tokens with four taps, all in `joint`, whole vectors; the first row is at `now`."""
    for _ in range(tokens):
        for i in range(0, n, 16):
            at = now + first + i
            prefetch(joint, at + AHEAD * stride)
            x0, x1 = load_f32(joint, at - 3 * stride), load_f32(joint, at - 2 * stride)
            x2, x3 = load_f32(joint, at - stride), load_f32(joint, at)
            store_f32(y, to + i, _four_taps(x0, x1, x2, x3, constants, first + i, channels))
        for i in range(n, padded, 16):
            store_f32(y, to + i, zero_f32())
        now += stride
        to += step


@inner
def _conv_one(joint, sizes, constants, old, memory, window, left, row, kh, soon, soon_at, y, to):
    """The convolution of a single token for a key head, whose window moves on by a row in the same pass.

    Memory would rest meanwhile: lines of `soon` are asked for, as many as a block of the matrix has.
    """
    key_heads, dk, dv = sizes[0], sizes[2], sizes[3]
    groups, kd, channels = sizes[1] // key_heads, key_heads * dk, conv_channels(sizes)
    now = row * sizes[5] + sizes[6]
    lines = dk * BLOCK // (2 * dk + groups * dv)
    for part in range(2 + groups):
        first = part * kd + kh * dk if part < 2 else 2 * kd + (kh * groups + part - 2) * dv
        n, padded = (dk, dk) if part < 2 else (dv, round_up(dv, BLOCK))
        for i in range(first, first + n, 16):
            for _ in range(lines):
                prefetch(soon, soon_at)
                soon_at += 16
            x0, x1 = load_f32(old, memory + i), load_f32(old, memory + channels + i)
            x2, x3 = load_f32(old, memory + 2 * channels + i), load_f32(joint, now + i)
            store_f32(window, left + i, x1)
            store_f32(window, left + channels + i, x2)
            store_f32(window, left + 2 * channels + i, x3)
            store_f32(y, to + i - first, _four_taps(x0, x1, x2, x3, constants, i, channels))
        for i in range(n, padded, 16):
            store_f32(y, to + i, zero_f32())
        to += padded


@inner
def _conv(joint, row, stride, source, window, constants, channels, first, kernel, t, y, to, n, padded):
    """silu(sum over taps, ascending) of channels first .. first+n-1 of token t, then zeros up to `padded`.

    `row` is the place of channel 0 in the sequence's row 0. Tokens before that row come from the window at
    `window` in `source`, and are zero if that is negative.
    """
    begin = max(0, kernel - 1 - t)
    older = begin if window >= 0 else 0  # taps that reach into the window
    now = row + (t - kernel + 1) * stride + first
    before = window + t * channels + first
    for i in range(0, n, 16):
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
    step, place = row_size(dk, dv, groups), to
    for part in range(2 + groups):  # q, k, then each v
        first = part * kd + kh * dk if part < 2 else 2 * kd + (kh * groups + part - 2) * dv
        n, padded = (dk, dkp) if part < 2 else (dv, dvp)
        usual = max(t0, min(t1, USUAL - 1)) if kernel == USUAL and n % 16 == 0 else t1
        for t in range(t0, usual):
            there = place + (t - t0) * step
            _conv(
                joint, at, stride, source, window, constants, channels, first, kernel, t, y, there, n, padded
            )
        now, there = at + usual * stride, place + (usual - t0) * step
        _conv_rows(joint, now, stride, constants, first, channels, y, there, step, t1 - usual, n, padded)
        place += padded
    for t in range(t1 - t0):
        y[products + t] = _unit_vectors(y, to + t * step, to + t * step + dkp, dkp, scale)


@inlined
def stepping(sizes, tokens, src):
    """Whether a sequence takes the way of `prepare_one`."""
    return tokens == 1 and src >= 0 and sizes[4] == USUAL and sizes[2] % 16 == 0 and sizes[3] % 16 == 0


@inner
def prepare_one(joint, sizes, constants, old, memory, window, left, row, kh, soon, soon_at, y, to):
    """The piece of key head kh for a single token, and its window, which goes to `left`."""
    dk, groups = sizes[2], sizes[1] // sizes[0]
    gates = to + PIECE * row_size(dk, sizes[3], groups)
    for g in range(groups):
        _gates(joint, sizes, constants, row, 1, kh * groups + g, y, gates + g * 2 * PIECE)
    _conv_one(joint, sizes, constants, old, memory, window, left, row, kh, soon, soon_at, y, to)
    scale = np.float32(np.float64(dk) ** -0.5)
    y[gates + 2 * groups * PIECE] = _unit_vectors(y, to, to + dk, dk, scale)


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
