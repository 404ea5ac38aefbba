"""exp, sigmoid, silu and softplus of sixteen lanes: multiplications and additions only, no fma.

Each is one fixed sequence of float32 operations that NumPy can repeat (`qanat.backends.cpu.twins.functions`),
so results do not depend on the instruction set or on any library's version. Errors in units in the last
place, measured over all magnitudes: exp 0.7, log1p 1.3, softplus 1.8, sigmoid 2.3, silu 2.9. Where an
exponential is subnormal (beyond -87) its error is absolute, half of 2^-149. NaN gives NaN.

exp reduces x = n ln 2 + r with |r| <= ln(2) / 2 in two steps (W. J. Cody and W. Waite, "Software Manual for
the Elementary Functions", 1980) and takes a polynomial fitted at Chebyshev points; what the sum 1 + r rounds
away is added back. log1p(e) goes through the inverse hyperbolic tangent: with s = e / (2 + e),
log(1 + e) = 2 atanh(s) = e - s (e - 2 s^2 P(s^2)).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from qanat.backends.cpu.simd.arithmetic import as_f32, as_i32, vmax, vmin
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

EXP_LOW, EXP_HIGH = np.float32(-104), np.float32(89)
"""Below the first exp is 0, above the second it is infinite."""
LOG2E = np.float32(1.44269504)
LN2_HIGH = np.float32(0.693359375)  # 355 / 512: few enough bits that n * LN2_HIGH is exact
LN2_LOW = np.float32(-2.12194440e-4)
MAGIC = np.float32(12582912)  # 1.5 * 2^23: adding it rounds to an integer, held in the low bits
MAGIC_BITS = np.int32(0x4B400000)
EXP = (0.5, 0.16666667, 0.041666463, 8.3332984e-3, 1.3933884e-3, 1.9899587e-4)
"""(exp(r) - 1 - r) / r^2 by ascending powers of r."""
ATANH = (0.33333334, 0.19999851, 0.14296292, 0.10851652, 0.11619552)
"""(atanh(s) / s - 1) / s^2 by ascending powers of s^2."""

E0, E1, E2, E3, E4, E5 = (np.float32(c) for c in EXP)
A0, A1, A2, A3, A4 = (np.float32(c) for c in ATANH)
ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
SIGN, REST = np.int32(-(2**31)), np.int32(0x7FFFFFFF)
BIAS, MANTISSA, SIGN_SHIFT = np.int32(127), np.int32(23), np.int32(31)


_inlined = njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_inlined
def exp(x):
    """e^x: 0 from -104 down, infinity from 88.723 up, subnormal results rounded once."""
    x = vmin(splat_f32(EXP_HIGH), vmax(splat_f32(EXP_LOW), x))  # in this order a NaN stays
    shifted = x * splat_f32(LOG2E) + splat_f32(MAGIC)
    n = shifted - splat_f32(MAGIC)
    high, low = x - n * splat_f32(LN2_HIGH), n * splat_f32(LN2_LOW)
    r = high - low
    lost = (high - r) - low  # what the last subtraction rounded away
    p = splat_f32(E4) + r * splat_f32(E5)
    p = splat_f32(E3) + r * p
    p = splat_f32(E2) + r * p
    p = splat_f32(E1) + r * p
    p = splat_f32(E0) + r * p
    whole = splat_f32(ONE) + r
    y = whole + ((r - (whole - splat_f32(ONE))) + ((r * r) * p + lost))
    # 2^n in two factors: either is a normal number, and only the second product can round.
    exponent = as_i32(shifted) - splat_i32(MAGIC_BITS)
    half = exponent >> splat_i32(np.int32(1))
    return y * _power_of_two(half) * _power_of_two(exponent - half)


@_inlined
def _power_of_two(n):
    return as_f32((n + splat_i32(BIAS)) << splat_i32(MANTISSA))


@_inlined
def log1p_unit(e):
    """log(1 + e) for e in [0, 1]."""
    s = e / (splat_f32(TWO) + e)
    z = s * s
    p = splat_f32(A3) + z * splat_f32(A4)
    p = splat_f32(A2) + z * p
    p = splat_f32(A1) + z * p
    p = splat_f32(A0) + z * p
    return e - s * (e - (z + z) * p)


@_inlined
def _exp_of_minus_magnitude(x):
    return exp(as_f32(as_i32(x) | splat_i32(SIGN)))


@_inlined
def sigmoid(x):
    """1 / (1 + e^-x), by exponentials of negative numbers alone."""
    e = _exp_of_minus_magnitude(x)
    negative = as_i32(x) >> splat_i32(SIGN_SHIFT)  # all bits set where x < 0
    one = splat_f32(ONE)
    above = (as_i32(e) & negative) | (as_i32(one) & (negative ^ splat_i32(np.int32(-1))))
    return as_f32(above) / (one + e)


@_inlined
def silu(x):
    """x * sigmoid(x)."""
    return x * sigmoid(x)


@_inlined
def softplus(x):
    """log(1 + e^x) = max(x, 0) + log1p(e^-|x|)."""
    e = _exp_of_minus_magnitude(x)
    return vmax(splat_f32(ZERO), x) + log1p_unit(e)
