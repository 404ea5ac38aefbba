"""Gated softmax attention with partial rotary positions over paged keys and values (docs/model.md, 4).

Sources: A. Vaswani et al., "Attention Is All You Need" (2017); W. Kwon et al., "Efficient Memory Management
for LLM Serving with PagedAttention" (2023).
"""

from __future__ import annotations

import numpy as np

from qanat.backends.common.rotary import rotary_angles
from qanat.backends.reference.elementwise import F32, rms_norm, sigmoid, softmax
from qanat.backends.reference.state import AttentionState
from qanat.model.batch import Batch
from qanat.model.ops import AttentionWeights
from qanat.model.shapes import AttentionShape

__all__ = ["attend", "gated_attention", "rotate"]

Weights = AttentionWeights[F32]


def rotate(x: F32, angles: F32) -> F32:
    """Rotate the first 2 * len(angles[0]) dims of x [N, heads, head_dim]; dim d pairs with dim d + half."""
    half = angles.shape[1]
    cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)


def attend(q: F32, keys: F32, values: F32) -> F32:
    """One query token over the L tokens it may see.

    q: [nkv, gqa, head_dim], query heads grouped by the key head they share; keys, values: [L, nkv, head_dim].
    Returns [nkv, gqa, head_dim].
    """
    scores = np.einsum("ngd,lnd->ngl", q, keys) * np.float32(q.shape[-1] ** -0.5)
    out: F32 = np.einsum("ngl,lnd->ngd", softmax(scores), values)
    return out


def gated_attention(
    qg: F32, k: F32, v: F32, w: Weights, shape: AttentionShape, batch: Batch, state: AttentionState
) -> F32:
    """The whole mixer for a ragged batch.

    Args:
        qg: [N, nh * 2 * head_dim], for each head its query and then its gate; k, v: [N, nkv * head_dim].

    Returns:
        [N, nh * head_dim], gated, ready for the output projection. Keys and values are added to `state`.
    """
    n, nh, nkv, hd = len(qg), shape.heads, shape.kv_heads, shape.head_dim
    q, gate = np.split(qg.reshape(n, nh, 2 * hd), 2, axis=-1)
    angles = rotary_angles(batch.rope_positions, shape)
    q = rotate(rms_norm(q, w.q_norm, shape.eps), angles).reshape(n, nkv, nh // nkv, hd)
    k = rotate(rms_norm(k.reshape(n, nkv, hd), w.k_norm, shape.eps), angles)
    v = v.reshape(n, nkv, hd)
    out = np.empty_like(q)
    page = state.keys.shape[1]
    for i in range(batch.size):
        first, stop = int(batch.starts[i]), int(batch.starts[i + 1])
        old = int(batch.cache_len[i])
        where = np.arange(old, old + stop - first)
        at = batch.page_table[i, where // page], where % page
        state.keys[at], state.values[at] = k[first:stop], v[first:stop]
        used = batch.page_table[i, : (old + stop - first + page - 1) // page]
        keys, values = (a[used].reshape(-1, nkv, hd) for a in (state.keys, state.values))
        for row in range(first, stop):
            visible = old + row - first + 1
            out[row] = attend(q[row], keys[:visible], values[:visible])
    return out.reshape(n, nh * hd) * sigmoid(gate.reshape(n, nh * hd))
