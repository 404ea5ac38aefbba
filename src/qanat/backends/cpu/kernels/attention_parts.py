"""The steps of gated attention for one key head: norm and rotate, append, score, soften, sum, merge.

A block is 64 keys, one page. Within a block each query gets scores s, their maximum m, p = exp(s - m), the
sum l of p and o = sum of p v. Two results (m, l, o) merge by one formula, in a fixed order: the blocks of a
unit of eight ascending, then the units ascending. Blocks are cut by absolute position, so a query's bits do
not depend on who computes beside it.
"""

from __future__ import annotations

import numpy as np

from qanat.backends.cpu.kernels.jit import inlined, inner
from qanat.backends.cpu.kernels.norm import root_factor
from qanat.backends.cpu.simd import (
    lane_max,
    lane_sum,
    load_f32,
    prefetch,
    splat_f32,
    store_f32,
    vmax,
    zero_f32,
)
from qanat.backends.cpu.simd.functions import exp, sigmoid
from qanat.backends.cpu.simd.stored import (
    fma_stored,
    in_order,
    join_tile,
    prefetch_stored,
    put_stored,
    scaled_in_order,
    store_stored,
)
from qanat.backends.cpu.simd.tails import keep_first, load_first, splat_at, store_first
from qanat.backends.cpu.simd.tile import store_tile, tile_f32

__all__ = [
    "LOWEST",
    "PAGE",
    "TILE",
    "UNIT",
    "append",
    "finish",
    "join",
    "load_part",
    "merge",
    "norm_and_rotate",
    "score",
    "soften",
    "store_part",
    "weigh",
]

PAGE = 64
"""Keys of a block, as in `AttentionState`."""
UNIT = 8
"""Blocks that are merged before anything else: what threads share a long context by."""
TILE = 4
"""Queries that are multiplied with a panel together: with float32 sums in pairs of registers, as many as the
multipliers' latency asks for, and what one row often has for a key head."""
NEAR = 512
"""Elements from those being read to those that should be in the first cache."""
LOWEST = np.float32(-np.inf)


@inlined
def load_part(x, at, rest):
    """16 values, or the `rest` that there are, then zeros: masks are slow, so only the end has one."""
    return load_f32(x, at) if rest >= 16 else load_first(x, at, rest)


@inlined
def store_part(y, at, v, rest):
    """Write 16 values, or the `rest` that there are."""
    if rest >= 16:
        store_f32(y, at, v)
    else:
        store_first(y, at, v, rest)


@inner
def norm_and_rotate(x, at, weight, eps, cos, sin, angle, half, n, y, to):
    """RMSNorm of n values by `weight`, then the first 2 * half of them rotated; dim d pairs with d + half."""
    factor = splat_f32(root_factor(x, at, n, eps))
    for i in range(0, n, 16):
        rest = n - i
        store_part(y, to + i, load_part(x, at + i, rest) * factor * load_part(weight, i, rest), rest)
    for i in range(0, half, 16):
        rest = half - i
        c, s = load_part(cos, angle + i, rest), load_part(sin, angle + i, rest)
        a, b = load_part(y, to + i, rest), load_part(y, to + half + i, rest)
        store_part(y, to + i, a * c - b * s, rest)
        store_part(y, to + half + i, b * c + a * s, rest)


@inner
def append(key, at, keys, x, v, values, page_head, lane, n):
    """Store key [n] and value [n] as position `lane` of a page and head (`AttentionState` says how)."""
    to = (page_head * (PAGE // 16) + lane // 16) * n * 16 + lane % 16
    panels = (n + 15) // 16
    for i in range(0, n, 16):
        rest = n - i
        part = load_part(key, at + i, rest)
        for j in range(min(16, rest)):
            put_stored(keys, to + (i + j) * 16, part, j)
        store_stored(values, ((page_head * panels + i // 16) * PAGE + lane) * 16, load_part(x, v + i, rest))


@inlined
def _products(stored, at, x, x_at, stride, n, ahead):
    """A tile of sums over n vectors of a panel, each times a number of each query; ascending, fused.

    On the way the next page, `ahead` elements away, is asked into the second cache, and what is NEAR into the
    first: one page keeps the multipliers busy for no longer than memory needs to bring another.
    """
    tile = tile_f32(TILE, 1)
    for i in range(n):
        prefetch(stored, at + i * 16 + NEAR)
        prefetch_stored(stored, at + i * 16 + ahead)
        tile = fma_stored(tile, stored, at + i * 16, x, x_at + i, stride, None)
    return tile


@inner
def score(queries, gqa, seen, q, q_at, keys, at, ahead, n, scale, s_at):
    """Scores of some queries and the keys of a page that their rows see.

    Each sum over n dims ascends from zero, fused; then comes the scale. Queries lie in `q` from `q_at` on, n
    apart, scores from `s_at` on, PAGE apart. The page that comes next is `ahead` elements away.
    """
    for panel in range(0, PAGE, 16):
        for j in range(0, queries, TILE):
            if panel < seen + (min(j + TILE, queries) - 1) // gqa:
                tile = _products(keys, at, q, q_at + j * n, n, n, ahead if j == 0 else 0)
                store_tile(q, s_at + j * PAGE + panel, PAGE, 0, scaled_in_order(keys, tile, scale))
        at += n * 16


@inner
def soften(w, s, queries, gqa, seen, mass, lanes):
    """Scores become p = exp(s - m) where a key is seen; m goes to `mass`, their sum l to `mass` + lanes."""
    hidden = splat_f32(LOWEST)
    for j in range(queries):
        n = seen + j // gqa
        if n < PAGE:
            for i in range(0, PAGE, 16):
                at = s + j * PAGE + i
                store_f32(w, at, keep_first(load_f32(w, at), hidden, n - i))
        top = hidden
        for i in range(0, PAGE, 16):
            top = vmax(load_f32(w, s + j * PAGE + i), top)
        w[mass + j] = lane_max(top)
    # In a loop of its own, that waits for no maximum: exponentials are long chains, many must be under way.
    for j in range(queries):
        at, m = s + j * PAGE, splat_at(w, mass + j)
        total = zero_f32()
        for i in range(0, PAGE, 32):
            p0, p1 = exp(load_f32(w, at + i) - m), exp(load_f32(w, at + i + 16) - m)
            store_f32(w, at + i, p0)
            store_f32(w, at + i + 16, p1)
            total = total + p0 + p1
        w[mass + lanes + j] = lane_sum(total)


@inner
def join(w, mass, other, lanes, factors):
    """Merge (m, l) at `other` into those at `mass`, all queries at once.

    The factors for the old o go to `factors`, for the new one to `factors` + lanes.
    """
    for i in range(0, lanes, 16):
        m, other_m = load_f32(w, mass + i), load_f32(w, other + i)
        top = vmax(m, other_m)
        old, new = exp(m - top), exp(other_m - top)
        store_f32(w, factors + i, old)
        store_f32(w, factors + lanes + i, new)
        store_f32(w, mass + i, top)
        at = mass + lanes + i
        store_f32(w, at, load_f32(w, at) * old + load_f32(w, other + lanes + i) * new)


@inner
def weigh(queries, gqa, seen, w, p, values, at, ahead, panels, o, slots, factors, lanes):
    """o = o * old + (sum of p v over the seen keys) * new for some queries; the sum ascends, fused."""
    for panel in range(panels):
        for j in range(0, queries, TILE):
            every = min(PAGE, seen + j // gqa)  # keys that all queries of the tile see
            most = min(PAGE, seen + (min(j + TILE, queries) - 1) // gqa)
            tile = _products(values, at, w, p + j * PAGE, PAGE, every, ahead if j == 0 else 0)
            for key in range(every, most):
                # What a row does not see must not even be multiplied by zero: it may be no number.
                tile = fma_stored(
                    tile, values, at + key * 16, w, p + j * PAGE + key, PAGE, (key - seen + 1) * gqa - j
                )
            join_tile(w, o + (panel * slots + j) * 16, tile, factors + j, factors + lanes + j)
        at += PAGE * 16


@inner
def merge(w, mass, o, other, other_o, lanes, slots, panels, first, stop, factors):
    """A unit's (m, l) and o join those at `mass` and `o`, o for queries first .. stop-1 alone."""
    join(w, mass, other, lanes, factors)
    for panel in range(panels):
        for j in range(first, stop):
            at = (panel * slots + j) * 16
            old, new = splat_at(w, factors + j), splat_at(w, factors + lanes + j)
            store_f32(w, o + at, load_f32(w, o + at) * old + load_f32(w, other_o + at) * new)


@inner
def finish(w, total, o, slots, values, joint, gate, out, to, n):
    """out = o / l * sigmoid(gate) of one query, whose panels lie `slots` vectors apart; l is at `total`."""
    factor = splat_at(w, total)
    for i in range(0, n, 16):
        rest = n - i
        y = in_order(values, load_f32(w, o + i * slots)) / factor
        store_part(out, to + i, y * sigmoid(load_part(joint, gate + i, rest)), rest)
