"""The gated-attention mixer of one sequence as the kernel computes it (docs/model.md, 4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.twins.functions import F32, exp, fma, lane_sum, sigmoid, to_bf16
from qanat.backends.cpu.twins.norm import rms_norm
from qanat.model.ops import AttentionWeights
from qanat.model.shapes import AttentionShape

__all__ = ["as_stored", "attend", "gated_attention"]

PAGE, UNIT = 64, 8
Partial = tuple[F32, F32, F32]
"""m [nh], l [nh] and o [nh, head_dim] of some keys: their largest score, sum of p and sum of p v."""


def as_stored(x: F32, dtype: str) -> F32:
    """What the cache gives back: x, or x rounded to bfloat16."""
    return x if dtype == "f32" else (to_bf16(x).astype(np.uint32) << 16).view(np.float32)


def rotate(x: F32, cos: F32, sin: F32) -> F32:
    """x [N, heads, head_dim]; dim d pairs with dim d + half."""
    half = cos.shape[1]
    cos, sin = cos[:, None], sin[:, None]
    a, b = x[..., :half], x[..., half : 2 * half]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., 2 * half :]], axis=-1)


def _weighted_sum(weights: F32, rows: F32) -> F32:
    """sum over t of weights[:, t] rows[t], ascending, fused; weights [nh, T], rows [T, nh, n]."""
    total = np.zeros((rows.shape[1], rows.shape[2]), np.float32)
    for t in range(len(rows)):
        total = fma(weights[:, t, None], rows[t], total)
    return total


def block(q: F32, keys: F32, values: F32) -> Partial:
    """One block of at most 64 keys: q [nh, head_dim]; keys, values [L, nh, head_dim]."""
    scale = np.float32(q.shape[-1] ** -0.5)
    scores = _weighted_sum(q, keys.transpose(2, 1, 0)) * scale  # ascending over dims
    m = scores.max(axis=-1)
    p = exp(scores - m[:, None])
    padded = np.pad(p, [(0, 0), (0, PAGE - p.shape[1])]).reshape(len(p), 4, 16)
    total = ((padded[:, 0] + padded[:, 1]) + padded[:, 2]) + padded[:, 3]
    return m, lane_sum(total), _weighted_sum(p, values)


def merge(before: Partial, other: Partial) -> Partial:
    """Two partial results as one."""
    m = np.maximum(before[0], other[0])
    old, new = exp(before[0] - m), exp(other[0] - m)
    return m, before[1] * old + other[1] * new, before[2] * old[:, None] + other[2] * new[:, None]


def nothing(heads: int, n: int) -> Partial:
    """What has seen no key."""
    zeros = np.zeros((heads, n), np.float32)
    return np.full(heads, -np.inf, np.float32), zeros[:, 0], zeros


def attend(q: F32, keys: F32, values: F32) -> F32:
    """One token's queries [nh, head_dim] over L keys and values [L, nh, head_dim]: softmax(q k / sqrt) v."""
    result = nothing(*q.shape)
    for start in range(0, len(keys), UNIT * PAGE):
        unit = nothing(*q.shape)
        for at in range(start, min(start + UNIT * PAGE, len(keys)), PAGE):
            unit = merge(unit, block(q, keys[at : at + PAGE], values[at : at + PAGE]))
        result = merge(result, unit)
    return result[2] / result[1][:, None]


def gated_attention(
    qg: F32,
    k: F32,
    v: F32,
    w: AttentionWeights[F32],
    cos: F32,
    sin: F32,
    shape: AttentionShape,
    old_keys: F32,
    old_values: F32,
    dtype: str,
) -> tuple[F32, F32, F32]:
    """Rows of one sequence -> out [T, nh * head_dim] and keys and values [L + T, nkv, head_dim] as stored.

    qg, k, v: as in `Ops`; w holds 1 + w; old_keys, old_values: [L, nkv, head_dim] of the tokens before.
    """
    t, nh, nkv, hd = len(qg), shape.heads, shape.kv_heads, shape.head_dim
    q, gate = (np.ascontiguousarray(part) for part in np.split(qg.reshape(t, nh, 2 * hd), 2, axis=-1))
    q = rotate(rms_norm(q, w.q_norm, shape.eps), cos, sin)
    new = rotate(rms_norm(k.reshape(t, nkv, hd), w.k_norm, shape.eps), cos, sin)
    keys = np.concatenate([old_keys, as_stored(new, dtype)])
    values = np.concatenate([old_values, as_stored(np.ascontiguousarray(v).reshape(t, nkv, hd), dtype)])
    shared_keys, shared_values = (np.repeat(x, nh // nkv, axis=1) for x in (keys, values))
    out: NDArray[np.float32] = np.empty_like(q)
    for i in range(t):
        seen = len(old_keys) + i + 1
        out[i] = attend(q[i], shared_keys[:seen], shared_values[:seen])
    return (out * sigmoid(gate)).reshape(t, nh * hd), keys, values
