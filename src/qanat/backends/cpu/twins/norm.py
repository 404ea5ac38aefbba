"""RMSNorm and SwiGLU as the kernels compute them."""

from __future__ import annotations

import numpy as np

from qanat.backends.cpu.twins.functions import F32, lane_sum, lanes, silu

__all__ = ["rms_norm", "root_factor", "sum_of_squares", "swiglu"]


def sum_of_squares(x: F32) -> F32:
    """Over the last axis: sixteen partial sums in ascending order, then their tree."""
    parts = lanes(x)
    total = np.zeros_like(parts[..., 0, :])
    for i in range(parts.shape[-2]):
        total = total + parts[..., i, :] * parts[..., i, :]
    return lane_sum(total)


def root_factor(x: F32, eps: float) -> F32:
    """1 / sqrt(mean(x^2) + eps) over the last axis."""
    mean = sum_of_squares(x) / np.float32(x.shape[-1])
    factor: F32 = np.float32(1) / np.sqrt(mean + np.float32(eps))
    return factor


def rms_norm(x: F32, weight: F32, eps: float) -> F32:
    """x / sqrt(mean(x^2) + eps) * weight."""
    normed: F32 = x * root_factor(x, eps)[..., None] * weight
    return normed


def swiglu(gate: F32, up: F32) -> F32:
    """silu(gate) * up."""
    return silu(gate) * up
