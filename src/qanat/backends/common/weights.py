"""The weights that tokens are drawn by: exp(x - max) as a whole number of parts of 2**-44.

Whole numbers have exact sums. However a backend walks, cuts or shares a row, the mass of any set of tokens is
the same number, and so the same token is drawn. The exponential is made of IEEE additions and multiplications
alone, so that no mathematical library has a say either.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["LN2_HIGH", "LN2_LOW", "LOG2_E", "MOST_IDS", "TAYLOR", "UNIT", "defined_exp", "weigh"]

Float64 = NDArray[np.float64]

UNIT = 2.0**44
"""The weight of the most likely token. A token below 2**-45 of its probability weighs nothing."""
MOST_IDS = 2**19 - 1
"""So many weights of UNIT have a sum below 2**63."""

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.6931471803691238  # 33 bits of ln 2: times any exponent below 2**11 it is exact
LN2_LOW = 1.9082149292705877e-10
TAYLOR = (  # 1/13!, 1/12!, ..., 1/1!, 1/0!
    1.6059043836821613e-10,
    2.08767569878681e-09,
    2.505210838544172e-08,
    2.755731922398589e-07,
    2.7557319223985893e-06,
    2.48015873015873e-05,
    0.0001984126984126984,
    0.001388888888888889,
    0.008333333333333333,
    0.041666666666666664,
    0.16666666666666666,
    0.5,
    1.0,
    1.0,
)


def defined_exp(x: Float64) -> Float64:
    """exp(x) for x <= 0, float64, within about one unit in the last place, the same on every machine.

    x = k ln 2 + r with |r| <= ln 2 / 2; Taylor's series of exp(r) by Horner; then an exact scaling by 2**k.
    """
    x = np.maximum(x, -800.0)  # below -745 the result is zero anyway
    k = np.rint(x * LOG2_E)
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    series = np.full_like(r, TAYLOR[0])
    for coefficient in TAYLOR[1:]:
        series = series * r + coefficient
    scaled: Float64 = np.ldexp(series, k.astype(np.int32))
    return scaled


def weigh(x: NDArray[np.float32], largest: np.float32) -> NDArray[np.int64]:
    """exp(x - largest) * UNIT, rounded to whole numbers (ties to even), for any float32 x <= largest."""
    weights: NDArray[np.int64] = np.rint(
        defined_exp(x.astype(np.float64) - np.float64(largest)) * UNIT
    ).astype(np.int64)
    return weights
