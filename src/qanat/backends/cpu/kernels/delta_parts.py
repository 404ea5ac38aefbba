"""The steps of the gated-delta mixer for one head: convolution, gates, recurrence, norm, window.

The recurrent matrix is cut into blocks of 32 columns, which never meet: a block stays in the first-level
cache over all tokens of a piece. Two passes over it per token (predict, then correct and read) become one by
joining the second pass of a token with the first of the next: each element is loaded and stored once a token.

A prepared piece of a key head is a buffer of PIECE rows [q | k | v of each value head], each part padded with
zeros, and then for each of its value heads PIECE decays and PIECE betas.
"""

from __future__ import annotations

import numpy as np

from qanat.backends.cpu.kernels.jit import inlined, inner
from qanat.backends.cpu.kernels.norm import root_factor, sum_of_squares
from qanat.backends.cpu.simd import fma, load_f32, prefetch, splat_f32, store_f32, zero_f32
from qanat.backends.cpu.simd.functions import exp, sigmoid, silu, softplus
from qanat.backends.cpu.simd.tails import load_first, splat_at, store_first

__all__ = [
    "BLOCK",
    "PIECE",
    "gated_norm",
    "piece_size",
    "prepare",
    "recur",
    "round_up",
    "row_size",
    "shift_window",
]

BLOCK = 32
"""Columns of a block of the recurrent matrix, as in `DeltaState`."""
PIECE = 64
"""Tokens prepared at a time: their q, k and v stay in the second-level cache."""
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
    return PIECE * (row_size(dk, dv, groups) + 2 * groups)


@inner
def _conv(joint, at, stride, source, window, taps, channels, first, kernel, t, y, to, n, padded):
    """silu(sum over taps, ascending) of channels first .. first+n-1 of token t, then zeros up to `padded`.

    `at` is the place of channel 0 in the sequence's row 0. Tokens before that row come from the window at
    `window` in `source`, and are zero if that is negative.
    """
    older = max(0, kernel - 1 - t) if window >= 0 else 0  # taps that reach into the window
    begin = max(0, kernel - 1 - t)
    now = at + (t - kernel + 1) * stride + first
    before = window + t * channels + first
    whole = n - n % 16
    for i in range(0, whole, 16):
        total = zero_f32()
        for m in range(older):
            x = load_f32(source, before + m * channels + i)
            total = total + x * load_f32(taps, m * channels + first + i)
        for m in range(begin, kernel):
            x = load_f32(joint, now + m * stride + i)
            total = total + x * load_f32(taps, m * channels + first + i)
        store_f32(y, to + i, silu(total))
    rest = n - whole
    if rest > 0:
        total = zero_f32()
        for m in range(older):
            x = load_first(source, before + m * channels + whole, rest)
            total = total + x * load_first(taps, m * channels + first + whole, rest)
        for m in range(begin, kernel):
            x = load_first(joint, now + m * stride + whole, rest)
            total = total + x * load_first(taps, m * channels + first + whole, rest)
        store_f32(y, to + whole, silu(total))  # silu(0) is the 0 that pads
        whole += 16
    for i in range(whole, padded, 16):
        store_f32(y, to + i, zero_f32())


@inlined
def _l2_norm(y, at, n, scale):
    """y / sqrt(sum(y^2) + 1e-6) * scale in place."""
    factor = splat_f32(ONE / np.sqrt(sum_of_squares(y, at, n) + L2_EPS))
    for i in range(0, n, 16):
        store_f32(y, at + i, load_f32(y, at + i) * factor * splat_f32(scale))


@inner
def _gates(joint, sizes, a_log, dt_bias, row, tokens, head, y, to):
    """exp(g), the factor of decay, at `to`, and beta behind it, for rows row .. row+tokens-1."""
    stride, b, a = sizes[5], sizes[8] + head, sizes[9] + head
    rate, bias = exp(splat_at(a_log, head)), splat_at(dt_bias, head)
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
def prepare(joint, sizes, taps, a_log, dt_bias, source, window, row, t0, t1, kh, y, to):
    """The piece of key head kh for tokens t0 .. t1-1 of the sequence whose rows begin at `row`."""
    key_heads, value_heads, dk, dv = sizes[0], sizes[1], sizes[2], sizes[3]
    kernel, stride, at = sizes[4], sizes[5], row * sizes[5] + sizes[6]
    groups, kd = value_heads // key_heads, key_heads * dk
    channels = 2 * kd + value_heads * dv
    dkp, dvp = round_up(dk, 16), round_up(dv, BLOCK)
    scale = np.float32(np.float64(dk) ** -0.5)
    gate = to + PIECE * row_size(dk, dv, groups)
    for g in range(groups):
        _gates(joint, sizes, a_log, dt_bias, row + t0, t1 - t0, kh * groups + g, y, gate + g * 2 * PIECE)
    for t in range(t0, t1):
        for part in range(2 + groups):  # q, k, then each v
            first = part * kd + kh * dk if part < 2 else 2 * kd + (kh * groups + part - 2) * dv
            n, padded = (dk, dkp) if part < 2 else (dv, dvp)
            _conv(joint, at, stride, source, window, taps, channels, first, kernel, t, y, to, n, padded)
            if part < 2:
                _l2_norm(y, to, dkp, scale if part == 0 else ONE)
            to += padded


@inlined
def _write(out, at, low, high, width):
    if width == BLOCK:
        store_f32(out, at, low)
        store_f32(out, at + 16, high)
    else:
        store_first(out, at, low, width)
        store_first(out, at + 16, high, width - 16)


@inner
def recur(y, q, v, step, gate, tokens, before, start, after, to, dk, out, o, stride, width):
    """The delta rule on one block of columns, token by token.

    Per token: S = exp(g) S; p = k^T S; c = beta (v - p); S = S + k c; o = q^T S. Sums over rows of S ascend
    from zero by fused multiply-adds, and so does the update.

    Args:
        y: a prepared piece; its first q is at `q` (k behind it), the block's first v at `v`, rows `step`
            apart; the decays at `gate`, the betas PIECE behind.
        before, start: the block [dk, BLOCK] to begin with. after, to: where it is left; it may be the same.
        out, o, stride: o of token t goes to out[o + t * stride ...], `width` columns.
    """
    dkp = round_up(dk, 16)
    k = q + dkp
    keep = splat_at(y, gate)
    p0, p1 = zero_f32(), zero_f32()
    for i in range(dk):
        kt = splat_at(y, k + i)
        s0, s1 = load_f32(before, start) * keep, load_f32(before, start + 16) * keep
        p0, p1 = fma(kt, s0, p0), fma(kt, s1, p1)
        store_f32(after, to + BLOCK * i, s0)
        store_f32(after, to + BLOCK * i + 16, s1)
        start += BLOCK
    for t in range(tokens - 1):
        beta, keep = splat_at(y, gate + PIECE + t), splat_at(y, gate + t + 1)
        c0, c1 = beta * (load_f32(y, v) - p0), beta * (load_f32(y, v + 16) - p1)
        o0, o1, p0, p1 = zero_f32(), zero_f32(), zero_f32(), zero_f32()
        at = to
        for i in range(dk):
            kt, qt, kn = splat_at(y, k + i), splat_at(y, q + i), splat_at(y, k + step + i)
            s0, s1 = fma(kt, c0, load_f32(after, at)), fma(kt, c1, load_f32(after, at + 16))
            o0, o1 = fma(qt, s0, o0), fma(qt, s1, o1)
            s0, s1 = s0 * keep, s1 * keep  # from here on it is the next token's
            p0, p1 = fma(kn, s0, p0), fma(kn, s1, p1)
            store_f32(after, at, s0)
            store_f32(after, at + 16, s1)
            at += BLOCK
        _write(out, o, o0, o1, width)
        q, k, v, o = q + step, k + step, v + step, o + stride
    beta = splat_at(y, gate + PIECE + tokens - 1)
    c0, c1 = beta * (load_f32(y, v) - p0), beta * (load_f32(y, v + 16) - p1)
    o0, o1 = zero_f32(), zero_f32()
    for i in range(dk):
        prefetch(before, start)  # of what most often comes next: the block behind this one
        prefetch(before, start + 16)
        start += BLOCK
        kt, qt = splat_at(y, k + i), splat_at(y, q + i)
        s0, s1 = fma(kt, c0, load_f32(after, to)), fma(kt, c1, load_f32(after, to + 16))
        o0, o1 = fma(qt, s0, o0), fma(qt, s1, o1)
        store_f32(after, to, s0)
        store_f32(after, to + 16, s1)
        to += BLOCK
    _write(out, o, o0, o1, width)


@inner
def gated_norm(joint, sizes, norm, eps, out, first, stop, head):
    """out = out / sqrt(mean(out^2) + eps) * norm * silu(z) over one head of rows first .. stop-1."""
    heads, dv = sizes[1], sizes[3]
    whole = dv - dv % 16
    rest = dv - whole
    for row in range(first, stop):
        at, z = (row * heads + head) * dv, row * sizes[5] + sizes[7] + head * dv
        factor = splat_f32(root_factor(out, at, dv, eps))
        for i in range(0, whole, 16):
            y = load_f32(out, at + i) * factor * load_f32(norm, i)
            store_f32(out, at + i, y * silu(load_f32(joint, z + i)))
        if rest > 0:
            y = load_first(out, at + whole, rest) * factor * load_first(norm, whole, rest)
            store_first(out, at + whole, y * silu(load_first(joint, z + whole, rest)), rest)


@inner
def shift_window(joint, sizes, old, memory, window, dst, row, tokens, kh):
    """Leave the last Kc-1 raw rows of key head kh's channels in slot dst; ascending, so in place is safe."""
    key_heads, value_heads, dk, dv = sizes[0], sizes[1], sizes[2], sizes[3]
    kernel, stride, at = sizes[4], sizes[5], row * sizes[5] + sizes[6]
    groups, kd = value_heads // key_heads, key_heads * dk
    channels = 2 * kd + value_heads * dv
    for part in range(3):
        first = part * kd + kh * dk if part < 2 else 2 * kd + kh * groups * dv
        n = dk if part < 2 else groups * dv
        for m in range(kernel - 1):
            to = (dst * (kernel - 1) + m) * channels + first
            new = at + (tokens - (kernel - 1) + m) * stride + first
            kept = memory + (m + tokens) * channels + first
            for c in range(n):
                if m + tokens >= kernel - 1:
                    window[to + c] = joint[new + c]
                else:
                    window[to + c] = old[kept + c] if memory >= 0 else ZERO
