"""The vector functions of `simd/functions.py`, the fixed sum over lanes, and an exact fused multiply-add."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.simd.functions import (
    ATANH,
    EXP,
    EXP_HIGH,
    EXP_LOW,
    LN2_HIGH,
    LN2_LOW,
    LOG2E,
    MAGIC,
)

__all__ = ["F32", "exp", "fma", "lane_sum", "lanes", "log1p_unit", "sigmoid", "silu", "softplus", "to_bf16"]

F32 = NDArray[np.float32]
ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)


def _constant(value: float | np.float32, like: F32) -> F32:
    return np.full_like(like, value)


def _exp_factors(x: F32) -> tuple[F32, F32]:
    """(y, 2^n) whose product is e^x: x = n ln 2 + r, and y = 1 + (r + r^2 P(r))."""
    x = np.where(x < EXP_LOW, EXP_LOW, x)
    x = np.where(x > EXP_HIGH, EXP_HIGH, x)
    shifted = fma(x, _constant(LOG2E, x), _constant(MAGIC, x))
    n = shifted - MAGIC
    r = fma(n, _constant(-LN2_HIGH, x), x)
    r = fma(n, _constant(-LN2_LOW, x), r)
    c = [_constant(value, x) for value in EXP]
    r2 = r * r
    p = fma(c[4], r2, fma(c[3], r, c[2]))
    p = fma(p, r2, fma(c[1], r, c[0]))
    power = (shifted.view(np.int32) << 23) + ONE.view(np.int32)
    return ONE + fma(p, r2, r), power.view(np.float32)


def exp(x: F32) -> F32:
    """e^x: 0 or infinity where the exponent ends."""
    y, power = _exp_factors(x)
    with np.errstate(over="ignore", under="ignore"):
        return y * power


def log1p_unit(e: F32) -> F32:
    """log(1 + e) = e - s (e - 2 s^2 P(s^2)) with s = e / (2 + e), for e in [0, 1]."""
    s = e / (TWO + e)
    z = s * s
    p = _constant(ATANH[-1], z)
    for c in ATANH[-2::-1]:
        p = fma(z, p, _constant(c, z))
    result: F32 = e - s * (e - (z + z) * p)
    return result


def _one_and_exp_of_minus(x: F32) -> F32:
    """1 + e^-x."""
    y, power = _exp_factors(-x)
    return fma(y, power, np.ones_like(x))


def sigmoid(x: F32) -> F32:
    """1 / (1 + e^-x)."""
    return ONE / _one_and_exp_of_minus(x)


def silu(x: F32) -> F32:
    """x / (1 + e^-x)."""
    return x / _one_and_exp_of_minus(x)


def softplus(x: F32) -> F32:
    """log(1 + e^x) = max(x, 0) + log1p(e^-|x|)."""
    result: F32 = np.where(x < ZERO, ZERO, x) + log1p_unit(exp(-np.abs(x)))
    return result


def lanes(x: F32) -> F32:
    """The last axis, padded with zeros, as [..., vectors, 16]."""
    padding = [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % 16)]
    padded = np.pad(x, padding)
    return padded.reshape(*x.shape[:-1], -1, 16)


def lane_sum(x: F32) -> F32:
    """Sum of the last axis, sixteen lanes: halves are added until one lane is left."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x[..., 0]


def fma(a: F32, b: F32, c: F32) -> F32:
    """a b + c rounded once.

    The product of two float32 is exact in float64. The sum is first rounded to odd there (when inexact, to
    that neighbour whose last bit is set), after which rounding to float32 gives the correctly rounded result
    (S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = np.asarray(product + addend)
    with np.errstate(invalid="ignore"):
        part = total - product
        error = (product - (total - part)) + (addend - part)
    even = (total.view(np.int64) & 1) == 0
    inexact = np.isfinite(total) & (error != 0)
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    with np.errstate(over="ignore", under="ignore"):
        return np.where(inexact & even, odd, total).astype(np.float32)


def to_bf16(x: F32) -> NDArray[np.uint16]:
    """Rounded to the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = x.view(np.uint32)
    rounded = bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))
    return (np.where(np.isnan(x), bits | np.uint32(0x400000), rounded) >> 16).astype(np.uint16)
