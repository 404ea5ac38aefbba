"""exp, sigmoid, silu and softplus of sixteen lanes.

Each is one fixed sequence of float32 operations, fused multiply-adds among them, that NumPy can repeat
(`qanat.backends.cpu.twins.functions`), so results do not depend on the instruction set or on any library's
version. Errors in units in the last place, measured over all magnitudes: exp 1.0, log1p 1.3, softplus 2.0,
sigmoid 2.2, silu 2.3. Results below 2^-126 may be zero instead, and silu is zero where sigmoid is. NaN gives
NaN.

exp reduces x = n ln 2 + r with |r| <= ln(2) / 2 in two steps (W. J. Cody and W. Waite, "Software Manual for
the Elementary Functions", 1980) and takes a minimax polynomial, the last sum of which rounds once more. The
ends of the range need no comparison: clamped n makes the factor 2^n zero or infinite. log1p(e) goes through
the inverse hyperbolic tangent: with s = e / (2 + e), log(1 + e) = 2 atanh(s) = e - s (e - 2 s^2 P(s^2)).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from qanat.backends.cpu.simd.arithmetic import as_f32, as_i32, fma, vmax, vmin
from qanat.backends.cpu.simd.memory import splat_f32, splat_i32

__all__ = [
    "ATANH",
    "EXP",
    "EXP_HIGH",
    "EXP_LOW",
    "LN2_HIGH",
    "LN2_LOW",
    "LOG2E",
    "MAGIC",
    "exp",
    "log1p_unit",
    "sigmoid",
    "silu",
    "softplus",
]

EXP_LOW, EXP_HIGH = np.float32(-88), np.float32(89)
"""Where n is -127 and 128: the exponents that stand for zero and infinity."""
LOG2E = np.float32(1.44269504)
LN2_HIGH = np.float32(0.69314718)
LN2_LOW = np.float32(-1.9046542e-9)  # ln 2 - LN2_HIGH
MAGIC = np.float32(12582912)  # 1.5 * 2^23: adding it rounds to an integer, held in the low bits
EXP = (0.49999994, 0.16666521, 0.04166839, 8.3687166e-3, 1.3814599e-3)
"""(exp(r) - 1 - r) / r^2 by ascending powers of r."""
ATANH = (0.33333334, 0.19999851, 0.14296292, 0.10851652, 0.11619552)
"""(atanh(s) / s - 1) / s^2 by ascending powers of s^2."""

E0, E1, E2, E3, E4 = (np.float32(c) for c in EXP)
A0, A1, A2, A3, A4 = (np.float32(c) for c in ATANH)
ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
SIGN, ONE_BITS, MANTISSA = np.int32(-(2**31)), np.int32(0x3F800000), np.int32(23)


_inlined = njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_inlined
def _exp_factors(x):
    """(y, 2^n) whose product is e^x, with y near 1."""
    x = vmin(splat_f32(EXP_HIGH), vmax(splat_f32(EXP_LOW), x))  # in this order a NaN stays
    shifted = fma(x, splat_f32(LOG2E), splat_f32(MAGIC))
    n = shifted - splat_f32(MAGIC)
    r = fma(n, splat_f32(-LN2_HIGH), x)
    r = fma(n, splat_f32(-LN2_LOW), r)
    r2 = r * r
    p = fma(splat_f32(E4), r2, fma(splat_f32(E3), r, splat_f32(E2)))
    p = fma(p, r2, fma(splat_f32(E1), r, splat_f32(E0)))
    y = splat_f32(ONE) + fma(p, r2, r)
    # The low bits of `shifted` are n; those above leave by the shift.
    return y, as_f32((as_i32(shifted) << splat_i32(MANTISSA)) + splat_i32(ONE_BITS))


@_inlined
def exp(x):
    """e^x: 0 below -87.68, infinity above 88.37."""
    y, power = _exp_factors(x)
    return y * power


@_inlined
def log1p_unit(e):
    """log(1 + e) for e in [0, 1]."""
    s = e / (splat_f32(TWO) + e)
    z = s * s
    p = fma(z, splat_f32(A4), splat_f32(A3))
    p = fma(z, p, splat_f32(A2))
    p = fma(z, p, splat_f32(A1))
    p = fma(z, p, splat_f32(A0))
    return e - s * (e - (z + z) * p)


@_inlined
def _one_and_exp_of_minus(x):
    """1 + e^-x, rounded once more than the exponential's factor."""
    y, power = _exp_factors(splat_f32(-ZERO) - x)
    return fma(y, power, splat_f32(ONE))


@_inlined
def sigmoid(x):
    """1 / (1 + e^-x): 0 below -88.37."""
    return splat_f32(ONE) / _one_and_exp_of_minus(x)


@_inlined
def silu(x):
    """x / (1 + e^-x)."""
    return x / _one_and_exp_of_minus(x)


@_inlined
def softplus(x):
    """log(1 + e^x) = max(x, 0) + log1p(e^-|x|)."""
    e = exp(as_f32(as_i32(x) | splat_i32(SIGN)))
    return vmax(splat_f32(ZERO), x) + log1p_unit(e)
