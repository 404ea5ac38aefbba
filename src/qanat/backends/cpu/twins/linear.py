"""Linear layers, quantised activations and packed weights as the kernels compute them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.twins.functions import F32, fma
from qanat.backends.cpu.twins.norm import rms_norm

__all__ = [
    "from_bf16",
    "linear_bf16",
    "linear_int8",
    "norm_quantise",
    "panels",
    "quantise",
    "quantise_weights",
    "to_bf16_at_least",
]

I8 = NDArray[np.int8]
U16 = NDArray[np.uint16]
GROUP, BLOCK, PANEL = 32, 128, 16


def from_bf16(bits: U16) -> F32:
    """bfloat16 bits as float32: exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bf16_at_least(x: F32) -> U16:
    """The smallest bfloat16 that is not less than x, for finite x >= 0."""
    return ((x.view(np.uint32).astype(np.uint64) + 0xFFFF) >> 16).astype(np.uint16)


def grouped(x: F32) -> F32:
    """[N, in] -> [N, groups, 32], filled up with zeros."""
    n, inputs = x.shape
    padded = np.zeros((n, -(-inputs // GROUP) * GROUP), np.float32)
    padded[:, :inputs] = x
    return padded.reshape(n, -1, GROUP)


def quantise_weights(w: F32) -> tuple[I8, U16]:
    """[out, in] -> q int8 [out, groups, 32] and scales [out, groups], with w = q * scale about."""
    x = grouped(w)
    scales = to_bf16_at_least(np.abs(x).max(-1) / np.float32(127))
    s = from_bf16(scales)[..., None]
    q = np.rint(np.divide(x, s, out=np.zeros_like(x), where=s > 0))
    return np.clip(q, -127, 127).astype(np.int8), scales


def quantise(x: F32) -> tuple[I8, F32]:
    """[N, in] -> q int8 [N, groups, 32] and scales float32 [N, groups], with x = q * scale about."""
    groups = grouped(x)
    most = np.abs(groups).max(-1)
    enough = most >= np.float32(2.0**-119)
    inverse = np.divide(np.float32(127), most, out=np.zeros_like(most), where=enough)
    with np.errstate(invalid="ignore"):
        scaled = groups * inverse[..., None]
        scaled = np.where(scaled > -127, scaled, np.float32(-127))  # NaN becomes -127 too
    q = np.rint(np.minimum(scaled, np.float32(127))).astype(np.int8)
    return q, most * np.float32(1 / 127)


def norm_quantise(x: F32, weight: F32, eps: float) -> tuple[I8, F32]:
    """quantise(rms_norm(x))."""
    return quantise(rms_norm(x, weight, eps))


def linear_int8(q: I8, x_scales: F32, w: I8, w_scales: U16) -> F32:
    """y[n, o] = sum over g, ascending, of (float32(q[n, g] . w[o, g]) * w_scale[o, g]) * x_scale[n, g]."""
    ws = from_bf16(w_scales)
    y = np.zeros((len(q), len(w)), np.float32)
    for g in range(ws.shape[1]):
        whole = q[:, g].astype(np.int32) @ w[:, g].astype(np.int32).T
        y = y + (whole.astype(np.float32) * ws[:, g]) * x_scales[:, g, None]
    return y


def linear_bf16(x: F32, w: U16) -> F32:
    """y[n, o] = sum over blocks of 128 inputs of their sums by fused multiply-add, all ascending."""
    y = np.zeros((len(x), len(w)), np.float32)
    for block in range(0, x.shape[1], BLOCK):
        part = np.zeros_like(y)
        for i in range(block, min(block + BLOCK, x.shape[1])):
            part = fma(x[:, i, None], from_bf16(w[:, i]), part)
        y = y + part
    return y


def panels(w: NDArray[np.generic], outputs: int) -> NDArray[np.generic]:
    """[out, ...] -> [outputs / 16, 16, ...], filled up with zeros: sixteen rows make a panel."""
    padded = np.zeros((outputs, *w.shape[1:]), w.dtype)
    padded[: len(w)] = w
    return padded.reshape(-1, PANEL, *w.shape[1:])
