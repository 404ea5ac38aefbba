"""Gated DeltaNet: a short convolution, a decaying associative memory, a gated norm (docs/model.md, 5).

Source: S. Yang, J. Kautz, A. Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule" (2024).
The recurrence runs token by token, never in chunks: a prompt read in pieces gives the same bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qanat.backends.reference.elementwise import F32, l2norm, rms_norm, sigmoid, silu, softplus
from qanat.backends.reference.state import DeltaState
from qanat.model.batch import FRESH, Batch
from qanat.model.ops import DeltaWeights
from qanat.model.shapes import DeltaShape

__all__ = ["causal_conv", "decay", "delta_step", "gated_delta"]

Weights = DeltaWeights[F32]


def causal_conv(u: F32, window: F32, taps: F32) -> tuple[F32, F32]:
    """Depthwise causal convolution and silu of one sequence (section 5.1).

    Args:
        u: [T, C] raw projections of the new tokens.
        window: [Kc-1, C] the raw projections before them, oldest first, zero before the sequence began.
        taps: [C, Kc]; tap Kc-1 multiplies the current token.

    Returns:
        y [T, C] and the window [Kc-1, C] after the last token.
    """
    kernel = taps.shape[1]
    padded = np.concatenate([window, u])  # [Kc-1+T, C]
    y = np.zeros_like(u)
    for m in range(kernel):
        y += padded[m : m + len(u)] * taps[:, m]
    return silu(y), padded[len(padded) - (kernel - 1) :]


def decay(a: F32, a_log: F32, dt_bias: F32) -> F32:
    """Log decay g = -exp(A_log) * softplus(a + dt_bias), <= 0, per value head (section 5.2)."""
    return -np.exp(a_log) * softplus(a + dt_bias)


def delta_step(S: F32, q: F32, k: F32, v: F32, g: F32, beta: F32) -> tuple[F32, F32]:
    """One token of the gated delta rule for all heads (section 5.4).

    Args:
        S: [Hv, dk, dv] the memory: a matrix that maps keys to values.
        q, k: [Hv, dk] normalised; q carries the scale dk^-0.5.
        v: [Hv, dv]; g, beta: [Hv].

    Returns:
        o [Hv, dv] and the new S. The memory first decays, then what it predicts for k is corrected
        towards v by the fraction beta, then q reads the corrected memory.
    """
    S = S * np.exp(g)[:, None, None]
    predicted = np.einsum("hk,hkv->hv", k, S)
    correction = beta[:, None] * (v - predicted)
    S += k[:, :, None] * correction[:, None, :]
    return np.einsum("hk,hkv->hv", q, S), S


def gated_delta(
    qkv: F32, z: F32, b: F32, a: F32, w: Weights, shape: DeltaShape, batch: Batch, state: DeltaState
) -> F32:
    """The whole mixer for a ragged batch.

    Args:
        qkv: [N, conv_dim] raw projections; z: [N, vd]; b, a: [N, Hv].

    Returns:
        [N, vd], gated and normed, ready for the output projection. `state` is updated at dst_slot.
    """
    y = np.empty_like(qkv)
    memory = np.empty((len(qkv), shape.value_heads, shape.value_dim), np.float32)  # o of every token
    beta, g = sigmoid(b), decay(a, w.a_log, w.dt_bias)
    after: list[tuple[F32, F32]] = []
    for i in range(batch.size):
        rows = slice(batch.starts[i], batch.starts[i + 1])
        window, S = _read(state, int(batch.src_slot[i]))
        y[rows], window = causal_conv(qkv[rows], window, w.conv)
        q, k, v = _heads(y[rows], shape)
        for t in range(len(q)):
            row = rows.start + t
            memory[row], S = delta_step(S, q[t], k[t], v[t], g[row], beta[row])
        after.append((window, S))
    # Written only now: one sequence's source may be another's destination (a fork reads its parent's slot).
    for slot, (window, S) in zip(batch.dst_slot, after, strict=True):
        state.conv_window[slot], state.recurrent[slot] = window, S
    normed = rms_norm(memory, w.norm, shape.eps) * silu(z.reshape(memory.shape))
    return normed.reshape(len(qkv), shape.vd)


def _read(state: DeltaState, slot: int) -> tuple[F32, F32]:
    if slot == FRESH:
        return np.zeros_like(state.conv_window[0]), np.zeros_like(state.recurrent[0])
    return state.conv_window[slot], state.recurrent[slot]


def _heads(y: F32, shape: DeltaShape) -> tuple[F32, F32, NDArray[np.float32]]:
    """Cut [T, conv_dim] into q, k [T, Hv, dk] and v [T, Hv, dv]: normalised, scaled, repeated (5.3)."""
    t, groups = len(y), shape.value_heads // shape.key_heads
    q = l2norm(y[:, : shape.kd].reshape(t, shape.key_heads, shape.key_dim))
    k = l2norm(y[:, shape.kd : 2 * shape.kd].reshape(t, shape.key_heads, shape.key_dim))
    v = y[:, 2 * shape.kd :].reshape(t, shape.value_heads, shape.value_dim)
    q = q * np.float32(shape.key_dim**-0.5)
    # Value head j reads key head j // groups: neighbours share a key.
    return np.repeat(q, groups, axis=1), np.repeat(k, groups, axis=1), v
