"""The gated-attention mixer for a ragged batch over paged keys and values (docs/model.md, 4).

Work is cut into groups, a few rows of one sequence that end in the same page, with the query heads of one key
head, and each group into units of eight pages. Threads take contiguous shares of equal cost. Where there are
many groups each belongs to one thread; where there are few, a group's units are shared, their partial results
kept and merged in order.
"""

from __future__ import annotations

import numpy as np

from qanat.backends.cpu.kernels.attention_parts import (
    LOWEST,
    PAGE,
    TILE,
    UNIT,
    append,
    finish,
    join,
    load_part,
    merge,
    norm_and_rotate,
    score,
    soften,
    store_part,
    weigh,
)
from qanat.backends.cpu.kernels.jit import entry, inlined, inner, merged
from qanat.backends.cpu.kernels.share import share
from qanat.backends.cpu.simd import splat_f32, store_f32, zero_f32

__all__ = ["ATTEND", "MERGE", "PREPARE", "gated_attention", "plan_attention"]

PREPARE, ATTEND, MERGE = range(3)

QUERIES = 64
"""Queries of a group: what reads a page together."""
SEQ, ROW, ROWS, HEAD, SEEN, PAGES, COST, PARTS = range(8)  # columns of the plan


@inlined
def _most_rows(sizes):
    """Rows of a group, at most."""
    return max(1, QUERIES // (sizes[0] // sizes[1]))


@inlined
def _slots(queries):
    """Room for queries, with what the last tile computes too much."""
    return queries + TILE - 1


@inlined
def _lanes(queries):
    return (_slots(queries) + 15) // 16 * 16


@inlined
def _panels(sizes):
    return (sizes[2] + 15) // 16


@inlined
def _result(sizes, queries):
    """Floats of a result (m, l, o) of some queries."""
    return 2 * _lanes(queries) + _panels(sizes) * _slots(queries) * 16


@inlined
def _scratch(sizes):
    """Floats of a thread: queries, scores, factors, (m, l) of a block, results of a unit and of all units."""
    queries = _most_rows(sizes) * (sizes[0] // sizes[1])
    return _slots(queries) * (16 * _panels(sizes) + PAGE) + 4 * _lanes(queries) + 2 * _result(sizes, queries)


@inlined
def _unit_cost(group, unit, gqa):
    pages = min(UNIT, group[PAGES] - unit * UNIT)
    return pages * ((group[ROWS] * gqa + 3) // 4 + 1)


@inlined
def _group_rows(row, stop, position, step):
    """Rows of the group that begins with `row`: they have their last page in common."""
    return min(step, stop - row, PAGE - position % PAGE)


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
    step = _most_rows(sizes)
    count = 0
    for i in range(len(starts) - 1):
        n = np.int64(starts[i + 1]) - np.int64(starts[i])
        count += ((n + step - 1) // step + n // PAGE + 1) * kv_heads  # at most
    plan = np.zeros((count + 1, 8), np.int64)
    g, cost = 0, 0
    for i in range(len(starts) - 1):
        row, stop, before = np.int64(starts[i]), np.int64(starts[i + 1]), np.int64(cache_len[i])
        position = before
        while row < stop:
            rows = _group_rows(row, stop, position, step)
            for head in range(kv_heads):
                group = plan[g]
                group[SEQ], group[ROW], group[ROWS], group[HEAD] = i, row, rows, head
                group[SEEN], group[PAGES] = position + 1, position // PAGE + 1
                group[COST], group[PARTS] = cost, -1
                for unit in range((group[PAGES] + UNIT - 1) // UNIT):
                    cost += _unit_cost(group, unit, gqa)
                g += 1
            row += rows
            position += rows
    plan[g, COST] = cost
    work = threads * _scratch(sizes)
    if g < 4 * threads:
        for i in range(g):
            group = plan[i]
            units = (group[PAGES] + UNIT - 1) // UNIT
            last = plan[i + 1, COST] - _unit_cost(group, units - 1, gqa)
            if group[COST] * threads // cost != last * threads // cost:
                group[PARTS] = work
                work += units * _result(sizes, group[ROWS] * gqa)
    return plan[: g + 1], work, work > threads * _scratch(sizes)


@merged
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


@inlined
def _gate(group, sizes, j):
    """Place of the gate of query j in `joint`."""
    gqa = sizes[0] // sizes[1]
    head = group[HEAD] * gqa + j % gqa
    return (group[ROW] + j // gqa) * sizes[4] + sizes[5] + (head * 2 + 1) * sizes[2]


@inner
def _block(group, sizes, block, page, next_page, keys, values, w, q, s, factors, mass, unit):
    """All queries of a group over one page; their result joins that at `unit`."""
    gqa, n, panels = sizes[0] // sizes[1], sizes[2], _panels(sizes)
    queries = group[ROWS] * gqa
    slots, lanes = _slots(queries), _lanes(queries)
    seen = group[SEEN] - block * PAGE  # keys of this page and those after it that the first row sees
    head, ahead = page * sizes[1] + group[HEAD], (next_page - page) * sizes[1]
    size = PAGE * n
    score(queries, gqa, seen, w, q, keys, head * size, ahead * size, n, np.float32(np.float64(n) ** -0.5), s)
    soften(w, s, queries, gqa, seen, mass, lanes)
    join(w, unit, mass, lanes, factors)
    size = PAGE * panels * 16
    weigh(
        queries, gqa, seen, w, s, values, head * size, ahead * size, panels, unit + 2 * lanes, slots, factors,
        lanes,
    )  # fmt: skip


@inlined
def _clear(w, result, lanes, floats):
    """The result of having seen no key."""
    for i in range(0, lanes, 16):
        store_f32(w, result + i, splat_f32(LOWEST))
    for i in range(lanes, floats, 16):
        store_f32(w, result + i, zero_f32())


@merged
def _attend(joint, sizes, plan, pages, keys, values, w, at, out, thread, threads):
    """The units of one thread. Scratch at `at`, see `_scratch`."""
    gqa, n, panels = sizes[0] // sizes[1], sizes[2], _panels(sizes)
    groups = len(plan) - 1
    total = plan[groups, COST]
    for g in range(groups):
        group = plan[g]
        queries, parts, before = group[ROWS] * gqa, group[PARTS], group[COST]
        if parts < 0 and before * threads // total != thread:
            continue
        slots, lanes, floats = _slots(queries), _lanes(queries), _result(sizes, queries)
        s = at + slots * panels * 16
        factors = s + slots * PAGE
        mass = factors + 2 * lanes
        everything, own = mass + 2 * lanes, mass + 2 * lanes + floats
        for j in range(queries):
            for i in range(0, n, 16):
                store_part(w, at + j * n + i, load_part(out, _query(group, sizes, j) + i, n - i), n - i)
        if parts < 0:
            _clear(w, everything, lanes, floats)
        for unit in range((group[PAGES] + UNIT - 1) // UNIT):
            mine = parts < 0 or before * threads // total == thread
            before += _unit_cost(group, unit, gqa)
            if not mine:
                continue
            result = own if parts < 0 else parts + unit * floats
            _clear(w, result, lanes, floats)
            for block in range(unit * UNIT, min(group[PAGES], (unit + 1) * UNIT)):
                page = np.int64(pages[group[SEQ], block])
                next_page = np.int64(pages[group[SEQ], min(block + 1, group[PAGES] - 1)])
                _block(group, sizes, block, page, next_page, keys, values, w, at, s, factors, mass, result)
            if parts < 0:
                merge(
                    w, everything, everything + 2 * lanes, own, own + 2 * lanes, lanes, slots, panels, 0,
                    queries, factors,
                )  # fmt: skip
        if parts < 0:
            _finish(group, sizes, w, everything, lanes, slots, 0, queries, values, joint, out)


@inner
def _finish(group, sizes, w, result, lanes, slots, first, stop, values, joint, out):
    """Outputs of queries first .. stop-1."""
    for j in range(first, stop):
        o = result + 2 * lanes + j * 16
        gate, to = _gate(group, sizes, j), _query(group, sizes, j)
        finish(w, result + lanes + j, o, slots, values, joint, gate, out, to, sizes[2])


@merged
def _merge_share(joint, sizes, plan, values, w, at, out, thread, threads):
    """Merge the partial results of the queries of one thread."""
    gqa, panels = sizes[0] // sizes[1], _panels(sizes)
    count = 0
    for g in range(len(plan) - 1):
        if plan[g, PARTS] >= 0:
            count += plan[g, ROWS] * gqa
    begin, end = share(count, threads, thread)
    task = 0
    for g in range(len(plan) - 1):
        group = plan[g]
        if group[PARTS] < 0:
            continue
        queries = group[ROWS] * gqa
        first, stop = max(0, begin - task), min(queries, end - task)
        task += queries
        if first >= stop:
            continue
        slots, lanes, floats = _slots(queries), _lanes(queries), _result(sizes, queries)
        result = at + 2 * lanes
        _clear(w, result, lanes, floats)
        for unit in range((group[PAGES] + UNIT - 1) // UNIT):
            part = group[PARTS] + unit * floats
            merge(
                w, result, result + 2 * lanes, part, part + 2 * lanes, lanes, slots, panels, first, stop, at
            )
        _finish(group, sizes, w, result, lanes, slots, first, stop, values, joint, out)


@merged
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
        _merge_share(joint, sizes, plan, values, work, at, out, thread, threads)
