"""What happens to a row of raw logits before a token is drawn from it (docs/numerics.md, "Sampling").

The first half changes values and stays in float32, as transformers does; the second half only decides
which ids remain, and works in float64 with an exponential made of IEEE additions and multiplications
alone, so that the decision does not depend on the machine's mathematical library.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qanat.model.sampling import SamplingRow

__all__ = ["defined_exp", "keep_candidates", "process_logits"]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Ids = NDArray[np.int64]

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # 33 bits of ln 2: times any exponent below 2**11 it is exact
_LN2_LOW = 1.9082149292705877e-10
_TAYLOR = (  # 1/13!, 1/12!, ..., 1/1!, 1/0!
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
    k = np.rint(x * _LOG2_E)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    series = np.full_like(r, _TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        series = series * r + coefficient
    scaled: Float64 = np.ldexp(series, k.astype(np.int32))
    return scaled


def process_logits(logits: Float32, row: SamplingRow, live_vocab: int) -> Float32:
    """Apply bans, bias, penalties and temperature to one row, logits [V] float32 -> [V] float32.

    Order: dead rows and bans (-inf), logit_bias, repetition, frequency, presence, temperature. Each step is
    one float32 operation per element. With temperature 0 the division is left out.
    """
    x = logits.astype(np.float32, copy=True)
    with np.errstate(over="ignore", invalid="ignore"):
        x[live_vocab:] = -np.inf
        x[row.banned] = -np.inf
        for token, bias in row.logit_bias.items():
            x[token] += np.float32(bias)
        if row.repetition_penalty != 1.0:
            seen = np.unique(np.concatenate([row.prompt, row.output]))
            r = np.float32(row.repetition_penalty)
            x[seen] = np.where(x[seen] < 0, x[seen] * r, x[seen] / r)
        if (row.frequency_penalty or row.presence_penalty) and len(row.output):
            written, count = np.unique(row.output, return_counts=True)
            if row.frequency_penalty:
                x[written] -= np.float32(row.frequency_penalty) * count.astype(np.float32)
            if row.presence_penalty:
                x[written] -= np.float32(row.presence_penalty)
        if row.temperature > 0:
            x /= np.float32(row.temperature)
    return x


def keep_candidates(x: Float32, row: SamplingRow) -> tuple[Ids, Float64]:
    """Cut processed logits [V] by top_k, then top_p, then min_p.

    Returns the ids that may be drawn, [C] int64, and their weights exp(x - max), [C] float64, by descending
    logit, ties by lower id. The first always stays.
    """
    ids = _top_k(x, row.top_k)
    ids = ids[np.argsort(-x[ids], kind="stable")]
    values = x[ids].astype(np.float64)
    weights = defined_exp(values - values[0])
    if row.top_p < 1.0:
        # The shortest prefix that holds the share p of the mass: keep what less than p lies before.
        mass = np.cumsum(weights)
        count = max(1, int(np.searchsorted(mass, row.top_p * mass[-1], side="left")) + 1)
        ids, weights = ids[:count], weights[:count]
    if row.min_p > 0.0:
        count = int(np.count_nonzero(weights >= row.min_p))  # they descend from exactly 1
        ids, weights = ids[:count], weights[:count]
    return ids, weights


def _top_k(x: Float32, k: int) -> Ids:
    """Ids, ascending, of the k largest and every tie with the k-th; of all finite ones when k is 0."""
    stay = x > -np.inf
    if 0 < k < len(x):
        stay &= x >= np.partition(x, len(x) - k)[len(x) - k]
    return np.flatnonzero(stay)
