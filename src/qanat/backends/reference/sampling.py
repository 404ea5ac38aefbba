"""Choosing tokens from rows of logits: greedy, or one draw from the candidates that are left.

The token is a pure function of (processed logits, seed, choice index, output index).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qanat.backends.common.choices import damaged_logits, nothing_to_choose, with_logprobs
from qanat.backends.common.counter_rng import uniform
from qanat.backends.common.weights import MOST_IDS, weigh
from qanat.backends.reference.processors import keep_candidates, process_logits
from qanat.model.sampling import Choice, SamplingRow

__all__ = ["draw", "sample"]


def sample(logits: NDArray[np.float32], rows: Sequence[SamplingRow], live_vocab: int) -> list[Choice]:
    """Choose one token for each row of raw logits [M, V] float32; rows do not influence one another.

    Ids >= live_vocab are dead vocabulary rows: never chosen, never reported. Raises NumericalError when a row
    holds NaN or infinity, and RequestError when a row's own options leave nothing to choose from.
    """
    if len(logits) != len(rows):
        raise ValueError(f"{len(logits)} rows of logits, but {len(rows)} sampling rows")
    if logits.shape[1] > MOST_IDS:
        raise ValueError(f"{logits.shape[1]} ids: sums of weights hold at most {MOST_IDS}")
    return [_choose(raw, row, live_vocab) for raw, row in zip(logits, rows, strict=True)]


def _choose(raw: NDArray[np.float32], row: SamplingRow, live_vocab: int) -> Choice:
    if not np.isfinite(raw).all():
        raise damaged_logits()
    x = process_logits(raw, row, live_vocab)
    if not np.isfinite(x.max()):
        raise nothing_to_choose()
    token = int(np.argmax(x)) if row.temperature == 0 else draw(x, row)
    if row.logprobs is None:
        return Choice(token)
    peak = raw.max()
    likely = _most_likely(raw[:live_vocab], row.logprobs)
    return with_logprobs(token, raw, float(peak), int(weigh(raw, peak).sum()), likely)


def draw(x: NDArray[np.float32], row: SamplingRow) -> int:
    """Invert the cumulative distribution of processed logits [V] at this row's uniform number.

    The candidates are walked by descending logit, ties by lower id; the first whose cumulative weight
    exceeds u times the total is the token.
    """
    ids, weights = keep_candidates(x, row)
    cumulative = np.cumsum(weights)
    total = int(cumulative[-1])
    u = uniform(row.seed, row.choice_index, row.output_index)
    target = min(int(u * float(total)), total - 1)  # the product may round up to the total itself
    return int(ids[np.searchsorted(cumulative, target, side="right")])


def _most_likely(live: NDArray[np.float32], count: int) -> list[int]:
    """Ids of the `count` largest, largest first, ties by lower id."""
    return [int(i) for i in np.argsort(-live, kind="stable")[:count]]
