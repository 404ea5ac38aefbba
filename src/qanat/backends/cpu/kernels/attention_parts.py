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
    fma,
    lane_max,
    lane_sum,
    load_f32,
    splat_f32,
    store_f32,
    vmax,
    zero_f32,
)
from qanat.backends.cpu.simd.functions import exp, sigmoid
from qanat.backends.cpu.simd.stored import load_stored, put_stored, store_stored
from qanat.backends.cpu.simd.tails import keep_first, load_first, splat_at, store_first

__all__ = ["PAGE", "UNIT", "append", "finish", "merge", "norm_and_rotate", "score", "soften", "weigh"]

PAGE = 64
"""Keys of a block, as in `AttentionState`."""
UNIT = 8
"""Blocks that are merged before anything else: what threads share a long context by."""
LOWEST = np.float32(-np.inf)


@inner
def norm_and_rotate(x, at, weight, eps, cos, sin, angle, half, n, y, to):
    """RMSNorm of n values by `weight`, then the first 2 * half of them rotated; dim d pairs with d + half."""
    factor = splat_f32(root_factor(x, at, n, eps))
    for i in range(0, n, 16):
        rest = min(16, n - i)
        store_first(y, to + i, load_first(x, at + i, rest) * factor * load_first(weight, i, rest), rest)
    for i in range(0, half, 16):
        rest = min(16, half - i)
        c, s = load_first(cos, angle + i, rest), load_first(sin, angle + i, rest)
        a, b = load_first(y, to + i, rest), load_first(y, to + half + i, rest)
        store_first(y, to + i, a * c - b * s, rest)
        store_first(y, to + half + i, b * c + a * s, rest)


@inner
def append(key, at, keys, x, v, values, page_head, lane, n):
    """Store key [n] and value [n] as position `lane` of a page and head (`AttentionState` says how)."""
    to = (page_head * (PAGE // 16) + lane // 16) * n * 16 + lane % 16
    panels = (n + 15) // 16
    for i in range(0, n, 16):
        rest = min(16, n - i)
        part = load_first(key, at + i, rest)
        for j in range(rest):
            put_stored(keys, to + (i + j) * 16, part, j)
        store_stored(values, ((page_head * panels + i // 16) * PAGE + lane) * 16, load_first(x, v + i, rest))


@inner
def score(q, q0, q1, q2, q3, keys, panel, n, scale, s, s0, s1, s2, s3):
    """Four queries times sixteen keys: the sum over n dims ascends from zero, fused; then the scale."""
    t0, t1, t2, t3 = zero_f32(), zero_f32(), zero_f32(), zero_f32()
    for d in range(n):
        k = load_stored(keys, panel)
        t0, t1 = fma(splat_at(q, q0 + d), k, t0), fma(splat_at(q, q1 + d), k, t1)
        t2, t3 = fma(splat_at(q, q2 + d), k, t2), fma(splat_at(q, q3 + d), k, t3)
        panel += 16
    factor = splat_f32(scale)
    store_f32(s, s0, t0 * factor)
    store_f32(s, s1, t1 * factor)
    store_f32(s, s2, t2 * factor)
    store_f32(s, s3, t3 * factor)


@inlined
def _merge_weights(w, mass, other_max, other_sum, old, new):
    """Merge (m, l) into those at `mass` and `mass` + 1; the factors for either o, in all lanes, go to w."""
    m = w[mass]
    top = m if m > other_max else other_max
    store_f32(w, old, exp(splat_f32(m - top)))
    store_f32(w, new, exp(splat_f32(other_max - top)))
    w[mass] = top
    w[mass + 1] = w[mass + 1] * w[old] + other_sum * w[new]


@inner
def soften(w, s, n, mass, old, new):
    """Scores of one query and block become exp(s - m), and (m, l) joins what is at `mass`.

    Only the first n keys are seen; what lies behind them becomes exactly 0.
    """
    hidden = splat_f32(LOWEST)
    top = hidden
    for i in range(0, n, 16):
        v = keep_first(load_f32(w, s + i), hidden, n - i)
        store_f32(w, s + i, v)
        top = vmax(v, top)
    m = lane_max(top)
    total = zero_f32()
    for i in range(0, n, 16):
        p = exp(load_f32(w, s + i) - splat_f32(m))
        store_f32(w, s + i, p)
        total = total + p
    _merge_weights(w, mass, m, lane_sum(total), old, new)


@inner
def weigh(w, p0, p1, p2, p3, values, panel, n, o0, o1, o2, o3, f0, f1, f2, f3):
    """o = o * old + (sum over n keys of p v) * new for four queries and sixteen dims.

    The sum ascends from zero, fused. `f0` is the place of a query's factors: old, then new, in all lanes.
    """
    t0, t1, t2, t3 = zero_f32(), zero_f32(), zero_f32(), zero_f32()
    for t in range(n):
        v = load_stored(values, panel)
        t0, t1 = fma(splat_at(w, p0 + t), v, t0), fma(splat_at(w, p1 + t), v, t1)
        t2, t3 = fma(splat_at(w, p2 + t), v, t2), fma(splat_at(w, p3 + t), v, t3)
        panel += 16
    store_f32(w, o0, load_f32(w, o0) * load_f32(w, f0) + t0 * load_f32(w, f0 + 16))
    store_f32(w, o1, load_f32(w, o1) * load_f32(w, f1) + t1 * load_f32(w, f1 + 16))
    store_f32(w, o2, load_f32(w, o2) * load_f32(w, f2) + t2 * load_f32(w, f2 + 16))
    store_f32(w, o3, load_f32(w, o3) * load_f32(w, f3) + t3 * load_f32(w, f3 + 16))


@inner
def merge(w, mass, o, other_mass, other_o, n, factors):
    """A unit's (m, l) and o [n] join those at `mass` and `o`: o = o * old + other_o * new."""
    _merge_weights(w, mass, w[other_mass], w[other_mass + 1], factors, factors + 16)
    old, new = load_f32(w, factors), load_f32(w, factors + 16)
    for i in range(0, n, 16):
        store_f32(w, o + i, load_f32(w, o + i) * old + load_f32(w, other_o + i) * new)


@inner
def finish(w, mass, o, joint, gate, out, to, n):
    """out = o / l * sigmoid(gate)."""
    total = splat_at(w, mass + 1)
    for i in range(0, n, 16):
        rest = min(16, n - i)
        y = load_f32(w, o + i) / total * sigmoid(load_first(joint, gate + i, rest))
        store_first(out, to + i, y, rest)
