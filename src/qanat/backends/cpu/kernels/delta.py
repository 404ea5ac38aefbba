"""The gated-delta mixer for a ragged batch: convolution, gates, delta rule, gated norm (docs/model.md, 5).

Work is shared in one of two ways, which give the same bits because the same functions do it. In one region
each (sequence, key head) does everything for its heads; where that would leave threads idle, three regions
share (piece of tokens, key head), then (sequence, value head, block of columns), then rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from qanat.backends.cpu.kernels.delta_parts import (
    BLOCK,
    PIECE,
    gated_norm,
    gates,
    piece_size,
    prepare,
    recur,
    round_up,
    row_size,
    shift_window,
)
from qanat.backends.cpu.kernels.share import share

__all__ = ["gated_delta", "plan_delta"]

STATE_COST = 4
"""What reading and writing the state costs a sequence, in tokens."""
LONG = 16
"""Tokens of a sequence from which three regions may pay."""


@njit(nogil=True, cache=True, error_model="numpy")
def _total_cost(starts):
    return starts[len(starts) - 1] + STATE_COST * (len(starts) - 1)


@njit(nogil=True, cache=True, error_model="numpy")
def plan_delta(sizes, starts, threads):
    """(whether one region is used, float32 elements of `work`) for a batch; the same for all its layers."""
    key_heads, value_heads, dk, dv = sizes[0], sizes[1], sizes[2], sizes[3]
    one = piece_size(dk, dv, value_heads // key_heads)
    total = _total_cost(starts) * key_heads
    before, load, heaviest, last, longest, pieces = 0, 0, 0, -1, 0, 0
    for i in range(len(starts) - 1):
        tokens = starts[i + 1] - starts[i]
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


@njit(nogil=True, cache=True, error_model="numpy")
def _prepared(joint, sizes, taps, a_log, dt_bias, source, window, row, t0, t1, kh, work, at):
    """One piece of a key head: its rows of q, k, v, then the gates of its value heads."""
    groups, dk, dv = sizes[1] // sizes[0], sizes[2], sizes[3]
    prepare(joint, sizes, taps, source, window, row, t0, t1, kh, work, at)
    to = at + PIECE * row_size(dk, dv, groups)
    for g in range(groups):
        gates(joint, sizes, a_log, dt_bias, row + t0, t1 - t0, kh * groups + g, work, to + g * 2 * PIECE)


@njit(nogil=True, cache=True, error_model="numpy")
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
        recurrent[to : to + dk * BLOCK] = np.float32(0)
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


@njit(nogil=True, cache=True, error_model="numpy")
def _one_region(
    joint, sizes, eps, taps, a_log, dt_bias, norm, starts, src, dst, old, before, window, after, work, out, at,
    thread, threads,
):  # fmt: skip
    """The (sequence, key head) pairs of one thread."""
    key_heads, value_heads, dv, kernel = sizes[0], sizes[1], sizes[3], sizes[4]
    groups = value_heads // key_heads
    blocks = (dv + BLOCK - 1) // BLOCK
    channels = 2 * key_heads * sizes[2] + value_heads * dv
    total, spent = _total_cost(starts) * key_heads, 0
    for i in range(len(starts) - 1):
        row, tokens = starts[i], starts[i + 1] - starts[i]
        memory = src[i] * (kernel - 1) * channels if src[i] >= 0 else -1
        for kh in range(key_heads):
            mine = spent * threads // total == thread
            spent += tokens + STATE_COST
            if not mine:
                continue
            for t0 in range(0, tokens, PIECE):
                t1 = min(t0 + PIECE, tokens)
                _prepared(joint, sizes, taps, a_log, dt_bias, old, memory, row, t0, t1, kh, work, at)
                for head in range(kh * groups, (kh + 1) * groups):
                    for block in range(blocks):
                        # Later pieces continue from what the first has written.
                        origin, slot = (before, src[i]) if t0 == 0 else (after, dst[i])
                        _recurred(
                            sizes, work, at, head, block, t1 - t0, after, dst[i], origin, slot, out, row + t0
                        )
                    gated_norm(joint, sizes, norm, eps, out, row + t0, row + t1, head)
            shift_window(joint, sizes, old, memory, window, dst[i], row, tokens, kh)


@njit(nogil=True, cache=True, error_model="numpy")
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
        row, tokens = starts[i], starts[i + 1] - starts[i]
        memory = src[i] * (kernel - 1) * channels if src[i] >= 0 else -1
        for t0 in range(0, tokens, PIECE):
            t1 = min(t0 + PIECE, tokens)
            for kh in range(key_heads):
                if first <= task < stop:
                    at = task * one
                    _prepared(joint, sizes, taps, a_log, dt_bias, old, memory, row, t0, t1, kh, work, at)
                task += 1


@njit(nogil=True, cache=True, error_model="numpy")
def _recur_share(joint, sizes, starts, src, dst, old, before, window, after, work, out, thread, threads):
    """The (sequence, value head, block of columns) triples of one thread."""
    key_heads, value_heads, dk, dv, kernel = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    groups = value_heads // key_heads
    one = piece_size(dk, dv, groups)
    blocks = (dv + BLOCK - 1) // BLOCK
    channels = 2 * key_heads * dk + value_heads * dv
    total, spent, pieces = _total_cost(starts) * value_heads * blocks, 0, 0
    for i in range(len(starts) - 1):
        row, tokens = starts[i], starts[i + 1] - starts[i]
        for head in range(value_heads):
            for block in range(blocks):
                mine = spent * threads // total == thread
                spent += tokens + STATE_COST
                if not mine:
                    continue
                for t0 in range(0, tokens, PIECE):
                    t1 = min(t0 + PIECE, tokens)
                    at = ((pieces + t0 // PIECE) * key_heads + head // groups) * one
                    origin, slot = (before, src[i]) if t0 == 0 else (after, dst[i])
                    _recurred(
                        sizes, work, at, head, block, t1 - t0, after, dst[i], origin, slot, out, row + t0
                    )
                if block == 0 and head % groups == 0:
                    memory = src[i] * (kernel - 1) * channels if src[i] >= 0 else -1
                    shift_window(joint, sizes, old, memory, window, dst[i], row, tokens, head // groups)
        pieces += (tokens + PIECE - 1) // PIECE


@njit(nogil=True, cache=True, error_model="numpy")
def _norm_share(joint, sizes, norm, eps, out, rows, thread, threads):
    heads = sizes[1]
    first, stop = share(rows * heads, threads, thread)
    for task in range(first, stop):
        gated_norm(joint, sizes, norm, eps, out, task // heads, task // heads + 1, task % heads)


@njit(nogil=True, cache=True, error_model="numpy", parallel=True)
def gated_delta(
    joint, sizes, eps, taps, a_log, dt_bias, norm, starts, src, dst, old, before, window, after, one_region,
    work, out, threads,
):  # fmt: skip
    """The whole mixer. All arrays are flat and float32, except where said.

    Args:
        joint: [N, stride], the output of one linear layer that holds qkv, z, b and a.
        sizes: int64 [Hk, Hv, dk, dv, Kc, stride, column of qkv, of z, of b, of a].
        eps: float32, of the gated norm.
        taps: [Kc, conv_dim], tap Kc-1 multiplies the current token.
        a_log, dt_bias: [Hv]; norm: [dv].
        starts, src, dst: int32 as in `Batch`; src is a place in `old` and `before`.
        old, before: conv windows and recurrent matrices to read, in the layout of `DeltaState`.
        window, after: those to write. They may be the same arrays, if no sequence reads what another writes.
        one_region, work: what `plan_delta` answered, and a buffer of that size.
        out: [N, vd], gated and normed.
    """
    if threads == 1:
        _one_region(
            joint, sizes, eps, taps, a_log, dt_bias, norm, starts, src, dst, old, before, window, after, work,
            out, 0, 0, 1,
        )  # fmt: skip
    elif one_region:
        one = piece_size(sizes[2], sizes[3], sizes[1] // sizes[0])
        for thread in prange(threads):
            _one_region(
                joint, sizes, eps, taps, a_log, dt_bias, norm, starts, src, dst, old, before, window, after,
                work, out, thread * one, thread, threads,
            )  # fmt: skip
    else:
        for thread in prange(threads):
            _prepare_share(joint, sizes, taps, a_log, dt_bias, starts, src, old, work, thread, threads)
        for thread in prange(threads):
            _recur_share(
                joint, sizes, starts, src, dst, old, before, window, after, work, out, thread, threads
            )
        for thread in prange(threads):
            _norm_share(joint, sizes, norm, eps, out, starts[len(starts) - 1], thread, threads)
