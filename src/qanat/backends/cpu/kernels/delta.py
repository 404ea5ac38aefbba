"""The gated-delta mixer for a ragged batch: convolution, gates, delta rule, gated norm (docs/model.md, 5).

Work is shared in one of two ways, which give the same bits because the same functions do it. In one region
each (sequence, key head) does everything for its heads; where that would leave threads idle, three regions
share (piece of tokens, key head), then (sequence, value head, block of columns), then rows.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from qanat.backends.cpu.kernels.delta_parts import (
    BLOCK,
    PIECE,
    gated_norm,
    piece_size,
    prepare,
    recur,
    round_up,
    row_size,
    shift_window,
)
from qanat.backends.cpu.kernels.jit import entry, inner, parallel
from qanat.backends.cpu.kernels.share import share
from qanat.backends.cpu.simd import store_f32, zero_f32

__all__ = ["EVERYTHING", "NORM", "PREPARE", "RECUR", "gated_delta", "gated_delta_threads", "plan_delta"]

EVERYTHING, PREPARE, RECUR, NORM = range(4)

STATE_COST = 4
"""What reading and writing the state costs a sequence, in tokens."""
LONG = 16
"""Tokens of a sequence from which three regions may pay."""


@inner
def _total_cost(starts):
    return np.int64(starts[len(starts) - 1]) + STATE_COST * (len(starts) - 1)


@entry
def plan_delta(sizes, starts, threads):
    """(whether one region is used, float32 elements of `work`) for a batch; the same for all its layers."""
    key_heads, value_heads, dk, dv = sizes[0], sizes[1], sizes[2], sizes[3]
    one = piece_size(dk, dv, value_heads // key_heads)
    total = _total_cost(starts) * key_heads
    before, load, heaviest, last, longest, pieces = 0, 0, 0, -1, 0, 0
    for i in range(len(starts) - 1):
        tokens = np.int64(starts[i + 1] - starts[i])
        longest = max(longest, tokens)
        pieces += (tokens + PIECE - 1) // PIECE
        for _ in range(key_heads):
            thread = before * threads // total
            load = load + tokens + STATE_COST if thread == last else tokens + STATE_COST
            heaviest = max(heaviest, load)
            last = thread
            before += tokens + STATE_COST
    if threads == 1 or longest < LONG or 8 * heaviest * threads <= 9 * total:
        return True, threads * one
    return False, pieces * key_heads * one


@inner
def _recurred(sizes, work, at, head, block, tokens, recurrent, dst, source, src, out, row):
    """One piece of a block of columns; `src` < 0 starts from zeros."""
    key_heads, value_heads, dk, dv = sizes[0], sizes[1], sizes[2], sizes[3]
    groups = value_heads // key_heads
    step = row_size(dk, dv, groups)
    g = head % groups
    blocks = (dv + BLOCK - 1) // BLOCK
    place = (head * blocks + block) * dk * BLOCK
    slot = value_heads * blocks * dk * BLOCK
    to = dst * slot + place
    if src < 0:
        for i in range(0, dk * BLOCK, 16):
            store_f32(recurrent, to + i, zero_f32())
    before, start = (recurrent, to) if src < 0 else (source, src * slot + place)
    recur(
        work,
        at,
        at + 2 * round_up(dk, 16) + g * round_up(dv, BLOCK) + block * BLOCK,
        step,
        at + PIECE * step + g * 2 * PIECE,
        tokens,
        before,
        start,
        recurrent,
        to,
        dk,
        out,
        row * value_heads * dv + head * dv + block * BLOCK,
        value_heads * dv,
        min(BLOCK, dv - block * BLOCK),
    )


@inner
def _one_region(
    joint, sizes, eps, taps, a_log, dt_bias, norm, starts, src, dst, old, before, window, after, work, out,
    at, thread, threads,
):  # fmt: skip
    """The (sequence, key head) pairs of one thread."""
    key_heads, value_heads, dv, kernel = sizes[0], sizes[1], sizes[3], sizes[4]
    groups = value_heads // key_heads
    blocks = (dv + BLOCK - 1) // BLOCK
    channels = 2 * key_heads * sizes[2] + value_heads * dv
    total, spent = _total_cost(starts) * key_heads, 0
    for i in range(len(starts) - 1):
        row, tokens = np.int64(starts[i]), np.int64(starts[i + 1] - starts[i])
        here, there = np.int64(src[i]), np.int64(dst[i])
        memory = here * (kernel - 1) * channels if here >= 0 else -1
        for kh in range(key_heads):
            mine = spent * threads // total == thread
            spent += tokens + STATE_COST
            if not mine:
                continue
            for t0 in range(0, tokens, PIECE):
                t1 = min(t0 + PIECE, tokens)
                prepare(joint, sizes, taps, a_log, dt_bias, old, memory, row, t0, t1, kh, work, at)
                for head in range(kh * groups, (kh + 1) * groups):
                    for block in range(blocks):
                        # Later pieces continue from what the first has written.
                        origin, slot = (before, here) if t0 == 0 else (after, there)
                        _recurred(
                            sizes, work, at, head, block, t1 - t0, after, there, origin, slot, out, row + t0
                        )
                    gated_norm(joint, sizes, norm, eps, out, row + t0, row + t1, head)
            shift_window(joint, sizes, old, memory, window, there, row, tokens, kh)


@inner
def _prepare_share(joint, sizes, taps, a_log, dt_bias, starts, src, old, work, thread, threads):
    """The (piece, key head) pairs of one thread."""
    key_heads, value_heads, dk, dv, kernel = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    one = piece_size(dk, dv, value_heads // key_heads)
    channels = 2 * key_heads * dk + value_heads * dv
    pieces = 0
    for i in range(len(starts) - 1):
        pieces += (starts[i + 1] - starts[i] + PIECE - 1) // PIECE
    first, stop = share(pieces * key_heads, threads, thread)
    task = 0
    for i in range(len(starts) - 1):
        row, tokens = np.int64(starts[i]), np.int64(starts[i + 1] - starts[i])
        here = np.int64(src[i])
        memory = here * (kernel - 1) * channels if here >= 0 else -1
        for t0 in range(0, tokens, PIECE):
            t1 = min(t0 + PIECE, tokens)
            for kh in range(key_heads):
                if first <= task < stop:
                    at = task * one
                    prepare(joint, sizes, taps, a_log, dt_bias, old, memory, row, t0, t1, kh, work, at)
                task += 1


@inner
def _recur_share(joint, sizes, starts, src, dst, old, before, window, after, work, out, thread, threads):
    """The (sequence, value head, block of columns) triples of one thread."""
    key_heads, value_heads, dk, dv, kernel = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    groups = value_heads // key_heads
    one = piece_size(dk, dv, groups)
    blocks = (dv + BLOCK - 1) // BLOCK
    channels = 2 * key_heads * dk + value_heads * dv
    total, spent, pieces = _total_cost(starts) * value_heads * blocks, 0, 0
    for i in range(len(starts) - 1):
        row, tokens = np.int64(starts[i]), np.int64(starts[i + 1] - starts[i])
        here, there = np.int64(src[i]), np.int64(dst[i])
        for head in range(value_heads):
            for block in range(blocks):
                mine = spent * threads // total == thread
                spent += tokens + STATE_COST
                if not mine:
                    continue
                for t0 in range(0, tokens, PIECE):
                    t1 = min(t0 + PIECE, tokens)
                    at = ((pieces + t0 // PIECE) * key_heads + head // groups) * one
                    origin, slot = (before, here) if t0 == 0 else (after, there)
                    _recurred(
                        sizes, work, at, head, block, t1 - t0, after, there, origin, slot, out, row + t0
                    )
                if block == 0 and head % groups == 0:
                    memory = here * (kernel - 1) * channels if here >= 0 else -1
                    shift_window(joint, sizes, old, memory, window, there, row, tokens, head // groups)
        pieces += (tokens + PIECE - 1) // PIECE


@inner
def _norm_share(joint, sizes, norm, eps, out, rows, thread, threads):
    heads = sizes[1]
    first, stop = share(rows * heads, threads, thread)
    for task in range(first, stop):
        gated_norm(joint, sizes, norm, eps, out, task // heads, task // heads + 1, task % heads)


@entry
def gated_delta(
    joint, sizes, eps, taps, a_log, dt_bias, norm, starts, src, dst, old, before, window, after, work, out,
    phase, thread, threads,
):  # fmt: skip
    """One thread's share of one phase of the mixer. All arrays are flat and float32, except where said.

    Args:
        joint: [N, stride], the output of one linear layer that holds qkv, z, b and a.
        sizes: int64 [Hk, Hv, dk, dv, Kc, stride, column of qkv, of z, of b, of a].
        eps: float32, of the gated norm.
        taps: [Kc, conv_dim], tap Kc-1 multiplies the current token.
        a_log, dt_bias: [Hv]; norm: [dv].
        starts, src, dst: int32 as in `Batch`; src is a place in `old` and `before`.
        old, before: conv windows and recurrent matrices to read, in the layout of `DeltaState`.
        window, after: those to write. They may be the same arrays, if no sequence reads what another writes.
        work: a buffer of the size that `plan_delta` answered.
        out: [N, vd], gated and normed.
        phase: EVERYTHING; or PREPARE, RECUR and NORM, each begun when all threads have ended the one before.
    """
    if phase == EVERYTHING:
        at = thread * piece_size(sizes[2], sizes[3], sizes[1] // sizes[0])
        _one_region(
            joint, sizes, eps, taps, a_log, dt_bias, norm, starts, src, dst, old, before, window, after, work,
            out, at, thread, threads,
        )  # fmt: skip
    elif phase == PREPARE:
        _prepare_share(joint, sizes, taps, a_log, dt_bias, starts, src, old, work, thread, threads)
    elif phase == RECUR:
        _recur_share(joint, sizes, starts, src, dst, old, before, window, after, work, out, thread, threads)
    else:
        _norm_share(joint, sizes, norm, eps, out, np.int64(starts[len(starts) - 1]), thread, threads)


@parallel
def gated_delta_threads(
    joint, sizes, eps, taps, a_log, dt_bias, norm, starts, src, dst, old, before, window, after, work, out,
    phase, threads,
):  # fmt: skip
    """One phase of `gated_delta` on all threads."""
    for thread in prange(threads):
        gated_delta(
            joint, sizes, eps, taps, a_log, dt_bias, norm, starts, src, dst, old, before, window, after, work,
            out, phase, np.int64(thread), threads,
        )  # fmt: skip
