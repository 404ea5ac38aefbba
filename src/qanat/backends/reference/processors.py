"""What happens to a row of raw logits before a token is drawn from it (docs/numerics.md, "Sampling").

The first half changes values and stays in float32, as transformers does; the second half only decides
which ids remain, by weights that are whole numbers (`qanat.backends.common.weights`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qanat.backends.common.weights import UNIT, weigh
from qanat.model.sampling import SamplingRow

__all__ = ["keep_candidates", "process_logits"]

Float32 = NDArray[np.float32]
Integers = NDArray[np.int64]


def process_logits(logits: Float32, row: SamplingRow, live_vocab: int) -> Float32:
    """Apply bans, bias, penalties and temperature to one row, logits [V] float32 -> [V] float32.

    Order: dead rows, bans and what is not allowed (-inf), logit_bias, repetition, frequency, presence,
    temperature. Each step is one float32 operation per element. With temperature 0 the division is left out.
    """
    x = logits.astype(np.float32, copy=True)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        x[live_vocab:] = -np.inf
        x[row.banned] = -np.inf
        if row.allowed is not None:
            bits = np.unpackbits(row.allowed.astype("<u4").view(np.uint8), bitorder="little")[: len(x)]
            x[: len(bits)][bits == 0] = -np.inf
            x[len(bits) :] = -np.inf
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


def keep_candidates(x: Float32, row: SamplingRow) -> tuple[Integers, Integers]:
    """Cut processed logits [V] by top_k, then top_p, then min_p.

    Returns the ids that may be drawn, [C] int64, and their weights (`weigh`), [C] int64, by descending logit,
    ties by lower id. The first always stays.
    """
    ids = _top_k(x, row.top_k)
    ids = ids[np.argsort(-x[ids], kind="stable")]
    weights = weigh(x[ids], x[ids[0]])
    if row.top_p < 1.0:
        # The shortest prefix that holds the share p of the mass: keep what less than p lies before.
        mass = np.cumsum(weights).astype(np.float64)
        count = int(np.searchsorted(mass, row.top_p * mass[-1], side="left")) + 1
        ids, weights = ids[:count], weights[:count]
    if row.min_p > 0.0:
        below = np.flatnonzero(weights < row.min_p * UNIT)  # they descend from UNIT
        count = int(below[0]) if len(below) else len(weights)
        ids, weights = ids[:count], weights[:count]
    return ids, weights


def _top_k(x: Float32, k: int) -> Integers:
    """Ids, ascending, of the k largest and every tie with the k-th; of all finite ones when k is 0."""
    stay = x > -np.inf
    if 0 < k < len(x):
        stay &= x >= np.partition(x, len(x) - k)[len(x) - k]
    return np.flatnonzero(stay)
