"""Gated softmax attention with partial rotary positions over paged keys and values (docs/model.md, 4).

Sources: A. Vaswani et al., "Attention Is All You Need" (2017); J. Su et al., "RoFormer" (2021) for rotary
positions; W. Kwon et al., "Efficient Memory Management for LLM Serving with PagedAttention" (2023).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qanat.backends.reference.elementwise import F32, rms_norm, sigmoid, softmax
from qanat.backends.reference.state import AttentionState
from qanat.model.batch import Batch
from qanat.model.ops import AttentionWeights
from qanat.model.shapes import AttentionShape

__all__ = ["attend", "gated_attention", "rotary_angles", "rotate"]

Weights = AttentionWeights[F32]


def rotary_angles(positions: NDArray[np.int32], shape: AttentionShape) -> F32:
    """Angles [N, rotary_dim / 2] of every token and frequency.

    positions: [3, N] (time, height, width). Frequency j turns by theta^(-2j/rotary_dim) a position and takes
    its position from height if j % 3 == 1, from width if j % 3 == 2 (while j is below three times that
    axis's section), from time otherwise. Text has three equal rows, so the axes make no difference there.
    """
    half = shape.rotary_dim // 2
    # All in float32, as transformers computes them: at position 100,000 one unit in the last place of a
    # frequency is already 0.006 radians.
    exponent = np.arange(0, shape.rotary_dim, 2, dtype=np.float32) / np.float32(shape.rotary_dim)
    frequency = np.float32(1) / np.float32(shape.rope_theta) ** exponent
    axis = np.zeros(half, np.intp)
    for which in (1, 2):
        axis[which : 3 * shape.mrope_section[which] : 3] = which
    angles: F32 = positions.T[:, axis].astype(np.float32) * frequency
    return angles


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
