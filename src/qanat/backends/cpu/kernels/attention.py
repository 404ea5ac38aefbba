"""The gated-attention mixer for a ragged batch over paged keys and values (docs/model.md, 4).

Work is cut into groups, a few rows of one sequence with the query heads of one key head, and each group
into units of eight pages. Threads take contiguous shares of equal cost. Where there are many groups each
belongs to one thread; where there are few, a group's units are shared, their partial results kept and merged
in order.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from qanat.backends.cpu.kernels.attention_parts import (
    LOWEST,
    PAGE,
    UNIT,
    append,
    finish,
    merge,
    norm_and_rotate,
    score,
    soften,
    weigh,
)
from qanat.backends.cpu.kernels.jit import entry, inlined, inner, parallel
from qanat.backends.cpu.kernels.share import share
from qanat.backends.cpu.simd import load_f32, store_f32, zero_f32

__all__ = ["ATTEND", "MERGE", "PREPARE", "gated_attention", "gated_attention_threads", "plan_attention"]

PREPARE, ATTEND, MERGE = range(3)

QUERIES = 32
"""Queries of a group: what reads a page together."""
SEQ, ROW, ROWS, HEAD, SEEN, PAGES, COST, PARTS = range(8)  # columns of the plan
ZERO = np.float32(0)


@inlined
def _queries(sizes):
    """Most queries of a group."""
    gqa = sizes[0] // sizes[1]
    return max(1, QUERIES // gqa) * gqa


@inlined
def _padded(sizes):
    return (sizes[2] + 15) // 16 * 16


@inlined
def _scratch(sizes):
    """Floats of a thread: per query (and one more that nobody reads) scores, factors, and twice (m, l), o."""
    return (_queries(sizes) + 1) * (PAGE + 32 + 2 * (_padded(sizes) + 2)) + 16


@inlined
def _unit_cost(group, unit, gqa):
    pages = min(UNIT, group[PAGES] - unit * UNIT)
    return pages * ((group[ROWS] * gqa + 3) // 4 + 1)


@entry
def plan_attention(sizes, starts, cache_len, threads):
    """Cut a batch into groups; the same for all layers of a shape.

    Returns:
        plan int64 [groups + 1, 8]: sequence, first row, rows, key head, keys the first row sees, pages, cost
        of all before, place of the partial results in the work buffer or -1. The last line holds the total.
        The float32 elements of the work buffer, and whether groups are shared.
    """
    heads, kv_heads = sizes[0], sizes[1]
    gqa = heads // kv_heads
    step = _queries(sizes) // gqa
    count = 0
    for i in range(len(starts) - 1):
        count += np.int64(starts[i + 1] - starts[i] + step - 1) // step * kv_heads
    plan = np.empty((count + 1, 8), np.int64)
    g, cost = 0, 0
    for i in range(len(starts) - 1):
        first, stop = np.int64(starts[i]), np.int64(starts[i + 1])
        for row in range(first, stop, step):
            rows = min(step, stop - row)
            seen = np.int64(cache_len[i]) + row - first + 1
            for head in range(kv_heads):
                group = plan[g]
                group[SEQ], group[ROW], group[ROWS], group[HEAD] = i, row, rows, head
                group[SEEN], group[PAGES] = seen, (seen + rows - 1 + PAGE - 1) // PAGE
                group[COST], group[PARTS] = cost, -1
                for unit in range((group[PAGES] + UNIT - 1) // UNIT):
                    cost += _unit_cost(group, unit, gqa)
                g += 1
    for column in range(8):
        plan[count, column] = 0
    plan[count, COST] = cost
    work = threads * _scratch(sizes)
    if count < 4 * threads:
        for g in range(count):
            group = plan[g]
            units = (group[PAGES] + UNIT - 1) // UNIT
            last = plan[g + 1, COST] - _unit_cost(group, units - 1, gqa)
            if group[COST] * threads // cost != last * threads // cost:
                group[PARTS] = work
                work += units * group[ROWS] * gqa * (_padded(sizes) + 2)
    return plan, work, work > threads * _scratch(sizes)


@inner
def _prepare(
    joint, sizes, eps, q_norm, k_norm, cos, sin, starts, cache_len, pages, keys, values, work, at, out, first,
    stop,
):  # fmt: skip
    """Rows first .. stop-1: rotated queries to `out`, rotated keys and values to their page."""
    heads, kv_heads, n, half, stride = sizes[0], sizes[1], sizes[2], sizes[3] // 2, sizes[4]
    seq = 0
    for row in range(first, stop):
        while starts[seq + 1] <= row:
            seq += 1
        position = np.int64(cache_len[seq]) + row - np.int64(starts[seq])
        page, lane = np.int64(pages[seq, position // PAGE]), position % PAGE
        x = row * stride
        for h in range(heads):
            q = x + sizes[5] + h * 2 * n
            norm_and_rotate(joint, q, q_norm, eps, cos, sin, row * half, half, n, out, (row * heads + h) * n)
        for h in range(kv_heads):
            norm_and_rotate(joint, x + sizes[6] + h * n, k_norm, eps, cos, sin, row * half, half, n, work, at)
            append(work, at, keys, joint, x + sizes[7] + h * n, values, page * kv_heads + h, lane, n)


@inlined
def _query(group, sizes, j):
    """Place of query j of a group in `out`."""
    gqa = sizes[0] // sizes[1]
    return ((group[ROW] + j // gqa) * sizes[0] + group[HEAD] * gqa + j % gqa) * sizes[2]


@inner
def _score_tiles(group, sizes, q, keys, panel, scale, w, s, first, stop):
    """Scores of queries first .. stop-1 and one panel of sixteen keys, four queries at a time."""
    none = s + _queries(sizes) * PAGE  # where the surplus queries of the last tile write
    for j in range(first, stop, 4):
        j1, j2, j3 = min(j + 1, stop - 1), min(j + 2, stop - 1), min(j + 3, stop - 1)
        score(
            q, _query(group, sizes, j), _query(group, sizes, j1), _query(group, sizes, j2),
            _query(group, sizes, j3),
            keys, panel, sizes[2], scale,
            w, s + j * PAGE, s + j1 * PAGE if j1 == j + 1 else none, s + j2 * PAGE if j2 == j + 2 else none,
            s + j3 * PAGE if j3 == j + 3 else none,
        )  # fmt: skip


@inner
def _weigh_tiles(sizes, values, panel, n, w, s, factors, o, first, stop):
    """Weighted sums of n values for queries first .. stop-1 and one panel of sixteen dims."""
    none, size = _queries(sizes), _padded(sizes)
    for j in range(first, stop, 4):
        j1, j2, j3 = min(j + 1, stop - 1), min(j + 2, stop - 1), min(j + 3, stop - 1)
        d1, d2, d3 = j1 if j1 == j + 1 else none, j2 if j2 == j + 2 else none, j3 if j3 == j + 3 else none
        weigh(
            w, s + j * PAGE, s + j1 * PAGE, s + j2 * PAGE, s + j3 * PAGE, values, panel, n,
            o + j * size, o + d1 * size, o + d2 * size, o + d3 * size,
            factors + j * 32, factors + d1 * 32, factors + d2 * 32, factors + d3 * 32,
        )  # fmt: skip


@inner
def _block(group, sizes, block, page, q, keys, values, w, s, factors, mass, o):
    """All queries of a group over one page."""
    gqa, n = sizes[0] // sizes[1], sizes[2]
    scale = np.float32(np.float64(n) ** -0.5)
    seen = group[SEEN] - block * PAGE  # keys of this page that the first row sees
    rows = group[ROWS]
    page_head = page * sizes[1] + group[HEAD]
    # Rows that see the whole page go together; on the diagonal each row has its own number of keys.
    whole = 0 if seen < PAGE else rows
    for panel in range(PAGE // 16):
        at = (page_head * (PAGE // 16) + panel) * n * 16
        if whole > 0:
            _score_tiles(group, sizes, q, keys, at, scale, w, s + panel * 16, 0, rows * gqa)
        for row in range(whole, rows):
            if panel * 16 < seen + row:
                _score_tiles(group, sizes, q, keys, at, scale, w, s + panel * 16, row * gqa, (row + 1) * gqa)
    for row in range(rows):
        if seen + row > 0:
            for j in range(row * gqa, (row + 1) * gqa):
                f = factors + 32 * j
                soften(w, s + j * PAGE, min(PAGE, seen + row), mass + 2 * j, f, f + 16)
    panels = (n + 15) // 16
    for panel in range(panels):
        at = (page_head * panels + panel) * PAGE * 16
        if whole > 0:
            _weigh_tiles(sizes, values, at, PAGE, w, s, factors, o + panel * 16, 0, rows * gqa)
        for row in range(whole, rows):
            if seen + row > 0:
                keys_seen = min(PAGE, seen + row)
                _weigh_tiles(
                    sizes, values, at, keys_seen, w, s, factors, o + panel * 16, row * gqa, (row + 1) * gqa
                )


@inlined
def _clear(w, mass, o, queries, size):
    for j in range(queries):
        w[mass + 2 * j], w[mass + 2 * j + 1] = LOWEST, ZERO
    for i in range(0, queries * size, 16):
        store_f32(w, o + i, zero_f32())


@inner
def _attend(joint, sizes, plan, pages, keys, values, w, at, out, thread, threads):
    """The units of one thread. Scratch at `at`: scores, factors, (m, l) and o of a unit, and of all units."""
    gqa, size, most = sizes[0] // sizes[1], _padded(sizes), _queries(sizes) + 1
    s, factors = at, at + most * PAGE
    mass, o = factors + most * 32, factors + most * 34
    all_mass, all_o = o + most * size, o + most * (size + 2)
    groups = len(plan) - 1
    total = plan[groups, COST]
    for g in range(groups):
        group = plan[g]
        queries = group[ROWS] * gqa
        parts = group[PARTS]
        before = group[COST]
        if parts < 0 and before * threads // total != thread:
            continue
        if parts < 0:
            _clear(w, all_mass, all_o, queries, size)
        for unit in range((group[PAGES] + UNIT - 1) // UNIT):
            mine = parts < 0 or before * threads // total == thread
            before += _unit_cost(group, unit, gqa)
            if not mine:
                continue
            _clear(w, mass, o, queries, size)
            for block in range(unit * UNIT, min(group[PAGES], (unit + 1) * UNIT)):
                page = np.int64(pages[group[SEQ], block])
                _block(group, sizes, block, page, out, keys, values, w, s, factors, mass, o)
            for j in range(queries):
                if parts < 0:
                    merge(w, all_mass + 2 * j, all_o + j * size, mass + 2 * j, o + j * size, size, factors)
                else:
                    to = parts + (unit * queries + j) * (size + 2)
                    w[to], w[to + 1] = w[mass + 2 * j], w[mass + 2 * j + 1]
                    for i in range(0, size, 16):
                        store_f32(w, to + 2 + i, load_f32(w, o + j * size + i))
        if parts < 0:
            for j in range(queries):
                to = _query(group, sizes, j)
                finish(
                    w, all_mass + 2 * j, all_o + j * size, joint, _gate(group, sizes, j), out, to, sizes[2]
                )


@inlined
def _gate(group, sizes, j):
    """Place of the gate of query j in `joint`."""
    gqa = sizes[0] // sizes[1]
    head = group[HEAD] * gqa + j % gqa
    return (group[ROW] + j // gqa) * sizes[4] + sizes[5] + (head * 2 + 1) * sizes[2]


@inner
def _merge_share(joint, sizes, plan, w, at, out, thread, threads):
    """Merge the partial results of the queries of one thread."""
    gqa, size = sizes[0] // sizes[1], _padded(sizes)
    count = 0
    for g in range(len(plan) - 1):
        if plan[g, PARTS] >= 0:
            count += plan[g, ROWS] * gqa
    first, stop = share(count, threads, thread)
    task = 0
    mass, o = at + 32, at + 34
    for g in range(len(plan) - 1):
        group = plan[g]
        if group[PARTS] < 0:
            continue
        queries = group[ROWS] * gqa
        for j in range(queries):
            if first <= task < stop:
                _clear(w, mass, o, 1, size)
                for unit in range((group[PAGES] + UNIT - 1) // UNIT):
                    part = group[PARTS] + (unit * queries + j) * (size + 2)
                    merge(w, mass, o, part, part + 2, size, at)
                finish(w, mass, o, joint, _gate(group, sizes, j), out, _query(group, sizes, j), sizes[2])
            task += 1


@entry
def gated_attention(
    joint, sizes, eps, q_norm, k_norm, cos, sin, starts, cache_len, pages, keys, values, plan, work, out,
    phase, thread, threads,
):  # fmt: skip
    """One thread's share of one phase of the mixer. Arrays are flat and float32, except where said.

    Args:
        joint: [N, stride], the output of one linear layer that holds q and gates head by head, k, and v.
        sizes: int64 [nh, nkv, head_dim, rotary_dim, stride, column of q, of k, of v].
        eps: float32, of the norms. q_norm, k_norm: [head_dim], the factors themselves (1 + w).
        cos, sin: [N, rotary_dim / 2].
        starts, cache_len: int32 as in `Batch`; pages: its page_table, [B, P].
        keys, values: float32 or uint16, in the layout of `AttentionState`.
        plan, work: what `plan_attention` answered, and a buffer of that size.
        out: [N, nh * head_dim].
        phase: PREPARE, ATTEND and, if groups are shared, MERGE; each begun when all threads have ended the
            one before.
    """
    at = thread * _scratch(sizes)
    if phase == PREPARE:
        first, stop = share(len(out) // (sizes[0] * sizes[2]), threads, thread)
        _prepare(
            joint, sizes, eps, q_norm, k_norm, cos, sin, starts, cache_len, pages, keys, values, work, at,
            out, first, stop,
        )  # fmt: skip
    elif phase == ATTEND:
        _attend(joint, sizes, plan, pages, keys, values, work, at, out, thread, threads)
    else:
        _merge_share(joint, sizes, plan, work, at, out, thread, threads)


@parallel
def gated_attention_threads(
    joint, sizes, eps, q_norm, k_norm, cos, sin, starts, cache_len, pages, keys, values, plan, work, out,
    phase, threads,
):  # fmt: skip
    """One phase of `gated_attention` on all threads."""
    for thread in prange(threads):
        gated_attention(
            joint, sizes, eps, q_norm, k_norm, cos, sin, starts, cache_len, pages, keys, values, plan, work,
            out, phase, np.int64(thread), threads,
        )  # fmt: skip
