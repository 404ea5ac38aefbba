"""The gated-delta mixer of one sequence as the kernel computes it (docs/model.md, 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.twins.functions import F32, exp, fma, lane_sum, lanes, sigmoid, silu, softplus
from qanat.backends.cpu.twins.norm import rms_norm, sum_of_squares
from qanat.model.ops import DeltaWeights
from qanat.model.shapes import DeltaShape

__all__ = ["causal_conv", "delta_step", "gated_delta"]

ONE = np.float32(1)


def causal_conv(u: F32, window: F32, taps: F32) -> tuple[F32, F32]:
    """silu(sum over taps, ascending) [T, C], and the window [Kc-1, C] afterwards; taps are [C, Kc]."""
    kernel = taps.shape[1]
    padded = np.concatenate([window, u])
    y: F32 = np.zeros_like(u)
    for m in range(kernel):
        y += padded[m : m + len(u)] * taps[:, m]
    return silu(y), padded[len(padded) - (kernel - 1) :]


def l2_norm(x: F32) -> F32:
    """x / sqrt(sum(x^2) + 1e-6) over the last axis."""
    factor = ONE / np.sqrt(sum_of_squares(x) + np.float32(1e-6))
    normed: F32 = x * factor[..., None]
    return normed


def delta_step(S: F32, q: F32, k: F32, v: F32, keep: F32, beta: F32) -> tuple[F32, F32]:
    """One token: S [Hv, dk, dv], q and k [Hv, dk], v [Hv, dv], keep = exp(g) and beta [Hv] -> o, new S."""
    keep, product = keep[:, None], _dot(q, k)[:, None]
    correction = beta[:, None] * (v - keep * _read(k, S))
    o = keep * _read(q, S) + product * correction
    return o, fma(k[:, :, None], correction[:, None, :], S * keep[:, None])


def _dot(x: F32, y: F32) -> F32:
    """Products over the last axis: sixteen partial sums in ascending order, then their tree."""
    parts = lanes(x * y)
    total = np.zeros_like(parts[..., 0, :])
    for i in range(parts.shape[-2]):
        total = total + parts[..., i, :]
    return lane_sum(total)


def _read(key: F32, S: F32) -> F32:
    """sum over rows i of key[i] S[i, :], ascending, fused."""
    total = np.zeros_like(S[:, 0])
    for i in range(S.shape[1]):
        total = fma(key[:, i, None], S[:, i], total)
    return total


def gated_delta(
    qkv: F32, z: F32, b: F32, a: F32, w: DeltaWeights[F32], shape: DeltaShape, window: F32, S: F32
) -> tuple[F32, F32, F32]:
    """Rows of one sequence -> out [T, vd], the window [Kc-1, conv_dim] and S [Hv, dk, dv] afterwards."""
    y, window = causal_conv(qkv, window, w.conv)
    t, groups = len(y), shape.value_heads // shape.key_heads
    scale = np.float32(shape.key_dim**-0.5)
    q = l2_norm(y[:, : shape.kd].reshape(t, shape.key_heads, shape.key_dim)) * scale
    k = l2_norm(y[:, shape.kd : 2 * shape.kd].reshape(t, shape.key_heads, shape.key_dim))
    q, k = np.repeat(q, groups, axis=1), np.repeat(k, groups, axis=1)
    v = y[:, 2 * shape.kd :].reshape(t, shape.value_heads, shape.value_dim)
    keep = exp(-exp(w.a_log) * softplus(a + w.dt_bias))
    beta = sigmoid(b)
    out: NDArray[np.float32] = np.empty_like(v)
    for i in range(t):
        out[i], S = delta_step(S, q[i], k[i], v[i], keep[i], beta[i])
    gated = rms_norm(out, w.norm, shape.eps) * silu(z.reshape(out.shape))
    return gated.reshape(t, shape.vd), window, S
