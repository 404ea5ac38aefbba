"""Activations and norms: small functions that everything else is made of (docs/model.md, 3 and 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["F32", "l2norm", "rms_norm", "sigmoid", "silu", "softmax", "softplus"]

F32 = NDArray[np.float32]
ONE = np.float32(1)


def sigmoid(x: F32) -> F32:
    """1 / (1 + e^-x), without overflow: only exponentials of negative numbers are taken."""
    e = np.exp(-np.abs(x))  # in (0, 1]
    return np.where(x >= 0, ONE / (ONE + e), e / (ONE + e))


def silu(x: F32) -> F32:
    """x * sigmoid(x)."""
    return x * sigmoid(x)


def softplus(x: F32) -> F32:
    """log(1 + e^x), written so that large |x| neither overflows nor loses the small tail."""
    return np.maximum(x, np.float32(0)) + np.log1p(np.exp(-np.abs(x)))


def rms_norm(x: F32, weight: F32, eps: float) -> F32:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis. `weight` is 1 + w, except in the gated norm."""
    mean_square = np.mean(np.square(x), axis=-1, keepdims=True)
    normed: F32 = x * (ONE / np.sqrt(mean_square + np.float32(eps))) * weight
    return normed


def l2norm(x: F32) -> F32:
    """x / sqrt(sum(x^2) + 1e-6) over the last axis. The epsilon is inside the root, and matters."""
    sum_square = np.sum(np.square(x), axis=-1, keepdims=True)
    normed: F32 = x * (ONE / np.sqrt(sum_square + np.float32(1e-6)))
    return normed


def softmax(x: F32) -> F32:
    """Softmax over the last axis; the largest entry is taken off first."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    p: F32 = e / np.sum(e, axis=-1, keepdims=True)
    return p
