"""Linear layers, quantised activations and packed weights as the kernels compute them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.twins.functions import F32, fma, lane_sum
from qanat.backends.cpu.twins.norm import rms_norm

__all__ = [
    "from_bf16",
    "from_scale",
    "linear_bf16",
    "linear_int8",
    "norm_quantise",
    "panels",
    "quantise",
    "quantise_weights",
    "to_scale",
]

I8 = NDArray[np.int8]
U16 = NDArray[np.uint16]
GROUP, BLOCK, PANEL = 32, 128, 16


def from_bf16(bits: U16) -> F32:
    """bfloat16 bits as float32: exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def from_scale(bits: U16) -> F32:
    """Stored scales of int8 weights as float32: six bits of exponent from 2^-48 on, ten of mantissa."""
    mantissa = 1 + (bits & 1023).astype(np.float32) / 1024
    return np.asarray(np.ldexp(mantissa, (bits >> 10).astype(np.int32) - 48), np.float32)


def to_scale(x: F32) -> U16:
    """The nearest stored scale (ties to the even one), at least 2^-48. x is finite, >= 0 and below 2^16."""
    mantissa, exponent = np.frexp(np.maximum(x, np.float32(2.0**-48)))  # 0.5 <= mantissa < 1
    steps = np.rint(mantissa * 2048).astype(np.int64) - 1024  # 0 .. 1024: the last carries into the exponent
    return np.asarray(((exponent.astype(np.int64) + 47) << 10) + steps, np.uint16)


def grouped(x: F32) -> F32:
    """[N, in] -> [N, groups, 32], filled up with zeros."""
    n, inputs = x.shape
    padded = np.zeros((n, -(-inputs // GROUP) * GROUP), np.float32)
    padded[:, :inputs] = x
    return padded.reshape(n, -1, GROUP)


def quantise_weights(w: F32) -> tuple[I8, U16]:
    """[out, in] -> q int8 [out, groups, 32] and scales [out, groups], with w = q * scale about.

    Of four scales, which make 127, 126, 125 or 124 of a group's largest magnitude, the one whose errors have
    the smallest sum of squares; the first of equals.
    """
    x = grouped(w)
    best, q = np.zeros(x.shape[:2], np.uint16), np.zeros(x.shape, np.int8)
    least = np.full(x.shape[:2], np.inf, np.float32)
    for step in (127, 126, 125, 124):
        scales = to_scale(np.abs(x).max(-1) / np.float32(step))
        s = from_scale(scales)[..., None]
        whole = np.rint(x / s)
        squares = (x - whole * s) ** 2
        error = lane_sum(squares[..., :16] + squares[..., 16:])
        better = error < least
        best, least = np.where(better, scales, best), np.where(better, error, least)
        q = np.where(better[..., None], whole, q).astype(np.int8)
    return q, best


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
    ws = from_scale(w_scales)
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
