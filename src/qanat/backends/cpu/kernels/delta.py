"""The gated-delta mixer for a ragged batch: convolution, gates, delta rule, gated norm (docs/model.md, 5).

Work is shared in one of two ways, which give the same bits because the same functions do it. In one region
each (sequence, key head) does everything for its heads; where that would leave threads idle, three regions
share (piece of tokens, key head), then (sequence, value head, block of columns), then (piece, value head).
"""

from __future__ import annotations

from qanat.backends.cpu.kernels.delta_prepare import (
    BLOCK,
    PIECE,
    conv_channels,
    piece_size,
    prepare,
    prepare_one,
    round_up,
    row_size,
    shift_window,
    stepping,
)
from qanat.backends.cpu.kernels.delta_rule import gated_norm, recur, recur_one
from qanat.backends.cpu.kernels.jit import entry, inlined, inner, merged
from qanat.backends.cpu.kernels.share import share
from qanat.backends.cpu.simd import store_f32, zero_f32

__all__ = ["EVERYTHING", "NORM", "PREPARE", "RECUR", "gated_delta", "plan_delta"]

EVERYTHING, PREPARE, RECUR, NORM = range(4)

SEQUENCES = 10
"""Where `sizes` says how many sequences there are."""
STATE_COST = 4
"""What reading and writing the state costs a sequence, in tokens."""
LONG = 16
"""Tokens of a sequence from which three regions may pay."""


@inlined
def _sequence(sizes, i):
    """First row, tokens, source and destination of sequence i."""
    row = SEQUENCES + 1 + i
    slots = row + sizes[SEQUENCES] + 1
    return sizes[row], sizes[row + 1] - sizes[row], sizes[slots], sizes[slots + sizes[SEQUENCES]]


@inlined
def _rows(sizes):
    return sizes[SEQUENCES + 1 + sizes[SEQUENCES]]


@inlined
def _pieces(tokens):
    return (tokens + PIECE - 1) // PIECE


@inlined
def _total_cost(sizes):
    return _rows(sizes) + STATE_COST * sizes[SEQUENCES]


@inlined
def _window_of(sizes, slot):
    """Where a slot's convolution window begins; negative for no slot."""
    return slot * (sizes[4] - 1) * conv_channels(sizes) if slot >= 0 else -1


@entry
def plan_delta(sizes, threads):
    """(whether one region is used, float32 elements of `work`) for a batch; the same for all its layers."""
    key_heads, value_heads, dk, dv = sizes[0], sizes[1], sizes[2], sizes[3]
    one = piece_size(dk, dv, value_heads // key_heads)
    total = _total_cost(sizes) * key_heads
    before, load, heaviest, last, longest, pieces = 0, 0, 0, -1, 0, 0
    for i in range(sizes[SEQUENCES]):
        _, tokens, _, _ = _sequence(sizes, i)
        longest = max(longest, tokens)
        pieces += _pieces(tokens)
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
def _recurred(sizes, work, at, head, block, tokens, source, src, recurrent, dst):
    """One piece of a block of columns; `src` < 0 starts from zeros."""
    key_heads, value_heads, dk, dv = sizes[0], sizes[1], sizes[2], sizes[3]
    groups = value_heads // key_heads
    step = row_size(dk, dv, groups)
    g = head % groups
    blocks = (dv + BLOCK - 1) // BLOCK
    place = (head * blocks + block) * dk * BLOCK
    slot = value_heads * blocks * dk * BLOCK
    to = dst * slot + place
    v = at + 2 * round_up(dk, 16) + g * round_up(dv, BLOCK) + block * BLOCK
    gates = at + PIECE * step
    products = gates + 2 * groups * PIECE
    gates += g * 2 * PIECE
    if src < 0:
        for i in range(0, dk * BLOCK, 16):
            store_f32(recurrent, to + i, zero_f32())
        recur(work, at, v, step, gates, products, tokens, recurrent, to, recurrent, to, dk)
    else:
        start = src * slot + place
        recur(work, at, v, step, gates, products, tokens, source, start, recurrent, to, dk)


@inner
def _normed(joint, sizes, constants, eps, work, at, out, first, stop, head):
    """The gated norm of one value head over rows first .. stop-1, whose piece is at `at`."""
    value_heads, dk, dv = sizes[1], sizes[2], sizes[3]
    groups = value_heads // sizes[0]
    norm = sizes[4] * conv_channels(sizes) + 2 * value_heads
    o = at + 2 * round_up(dk, 16) + head % groups * round_up(dv, BLOCK)
    step = row_size(dk, dv, groups)
    gated_norm(joint, sizes, constants, norm, eps, work, o, step, out, first, stop, head)


@merged
def _one_region(
    joint, sizes, eps, constants, old, before, window, after, work, out, at, thread, threads
):  # fmt: skip
    """The (sequence, key head) pairs of one thread."""
    key_heads, value_heads, dk, dv = sizes[0], sizes[1], sizes[2], sizes[3]
    groups = value_heads // key_heads
    blocks = (dv + BLOCK - 1) // BLOCK
    matrices = groups * blocks * dk * BLOCK  # of one key head
    total, spent = _total_cost(sizes) * key_heads, 0
    for i in range(sizes[SEQUENCES]):
        row, tokens, src, dst = _sequence(sizes, i)
        memory = _window_of(sizes, src)
        cost = tokens + STATE_COST
        for t0 in range(0, tokens, PIECE):
            t1 = min(t0 + PIECE, tokens)
            for kh in range(key_heads):
                if (spent + kh * cost) * threads // total != thread:
                    continue
                heads = range(kh * groups, (kh + 1) * groups)
                if stepping(sizes, tokens, src):
                    start, to = (src * key_heads + kh) * matrices, (dst * key_heads + kh) * matrices
                    left, second = _window_of(sizes, dst), start + dk * BLOCK
                    prepare_one(
                        joint, sizes, constants, old, memory, window, left, row, kh, before, second, work, at
                    )
                    recur_one(sizes, work, at, before, start, after, to)
                else:
                    prepare(joint, sizes, constants, old, memory, row, t0, t1, kh, work, at)
                    for head in heads:
                        for block in range(blocks):
                            if t0 == 0:
                                _recurred(sizes, work, at, head, block, t1, before, src, after, dst)
                            else:  # from what the piece before has written
                                _recurred(sizes, work, at, head, block, t1 - t0, after, dst, after, dst)
                    if t1 == tokens:
                        shift_window(joint, sizes, old, memory, window, dst, row, tokens, kh)
                for head in heads:
                    _normed(joint, sizes, constants, eps, work, at, out, row + t0, row + t1, head)
        spent += key_heads * cost


@merged
def _prepare_share(joint, sizes, constants, old, work, thread, threads):
    """The (piece, key head) pairs of one thread."""
    key_heads = sizes[0]
    one = piece_size(sizes[2], sizes[3], sizes[1] // key_heads)
    pieces = 0
    for i in range(sizes[SEQUENCES]):
        _, tokens, _, _ = _sequence(sizes, i)
        pieces += _pieces(tokens)
    first, stop = share(pieces * key_heads, threads, thread)
    task = 0
    for i in range(sizes[SEQUENCES]):
        row, tokens, src, _ = _sequence(sizes, i)
        memory = _window_of(sizes, src)
        for t0 in range(0, tokens, PIECE):
            t1 = min(t0 + PIECE, tokens)
            for kh in range(key_heads):
                if first <= task < stop:
                    prepare(joint, sizes, constants, old, memory, row, t0, t1, kh, work, task * one)
                task += 1


@merged
def _recur_share(joint, sizes, old, before, window, after, work, thread, threads):
    """The (sequence, value head, block of columns) triples of one thread."""
    key_heads, value_heads, dv = sizes[0], sizes[1], sizes[3]
    groups = value_heads // key_heads
    one = piece_size(sizes[2], dv, groups)
    blocks = (dv + BLOCK - 1) // BLOCK
    total, spent, pieces = _total_cost(sizes) * value_heads * blocks, 0, 0
    for i in range(sizes[SEQUENCES]):
        row, tokens, src, dst = _sequence(sizes, i)
        for head in range(value_heads):
            for block in range(blocks):
                mine = spent * threads // total == thread
                spent += tokens + STATE_COST
                if not mine:
                    continue
                for t0 in range(0, tokens, PIECE):
                    t1 = min(t0 + PIECE, tokens)
                    at = ((pieces + t0 // PIECE) * key_heads + head // groups) * one
                    if t0 == 0:
                        _recurred(sizes, work, at, head, block, t1, before, src, after, dst)
                    else:
                        _recurred(sizes, work, at, head, block, t1 - t0, after, dst, after, dst)
                if block == 0 and head % groups == 0:
                    memory = _window_of(sizes, src)
                    shift_window(joint, sizes, old, memory, window, dst, row, tokens, head // groups)
        pieces += _pieces(tokens)


@merged
def _norm_share(joint, sizes, constants, eps, work, out, thread, threads):
    """The (piece, value head) pairs of one thread."""
    key_heads, value_heads = sizes[0], sizes[1]
    groups = value_heads // key_heads
    one = piece_size(sizes[2], sizes[3], groups)
    total, spent, pieces = _rows(sizes) * value_heads, 0, 0
    for i in range(sizes[SEQUENCES]):
        row, tokens, _, _ = _sequence(sizes, i)
        for t0 in range(0, tokens, PIECE):
            t1 = min(t0 + PIECE, tokens)
            for head in range(value_heads):
                if spent * threads // total == thread:
                    at = (pieces * key_heads + head // groups) * one
                    _normed(joint, sizes, constants, eps, work, at, out, row + t0, row + t1, head)
                spent += t1 - t0
            pieces += 1


@merged
def gated_delta(
    joint, sizes, eps, constants, old, before, window, after, work, out, phase, thread, threads
):  # fmt: skip
    """One thread's share of one phase of the mixer. All arrays are flat and float32, except `sizes`.

    Args:
        joint: [N, stride], the output of one linear layer that holds qkv, z, b and a.
        sizes: int64 [Hk, Hv, dk, dv, Kc, stride, column of qkv, of z, of b, of a, B, starts [B+1], src [B],
            dst [B]], the last as in `Batch`; src is a place in `old` and `before`.
        eps: float32, of the gated norm.
        constants: [taps [Kc, conv_dim], a_log [Hv], dt_bias [Hv], norm [dv]]; tap Kc-1 multiplies the current
            token.
        old, before: conv windows and recurrent matrices to read, in the layout of `DeltaState`.
        window, after: those to write. They may be the same arrays, if no sequence reads what another writes.
        work: a buffer of the size that `plan_delta` answered.
        out: [N, vd], gated and normed.
        phase: EVERYTHING; or PREPARE, RECUR and NORM, each begun when all threads have ended the one before.
    """
    if phase == EVERYTHING:
        at = thread * piece_size(sizes[2], sizes[3], sizes[1] // sizes[0])
        _one_region(
            joint, sizes, eps, constants, old, before, window, after, work, out, at, thread, threads
        )  # fmt: skip
    elif phase == PREPARE:
        _prepare_share(joint, sizes, constants, old, work, thread, threads)
    elif phase == RECUR:
        _recur_share(joint, sizes, old, before, window, after, work, thread, threads)
    else:
        _norm_share(joint, sizes, constants, eps, work, out, thread, threads)
