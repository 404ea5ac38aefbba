"""Choosing tokens from rows of logits: greedy, or one draw from the candidates that are left.

The token is a pure function of (processed logits, seed, choice index, output index).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qanat.backends.common.choices import check_rows, damaged_logits, nothing_to_choose, with_logprobs
from qanat.backends.common.counter_rng import uniform
from qanat.backends.common.weights import weigh
from qanat.backends.reference.processors import keep_candidates, process_logits
from qanat.model.sampling import Choice, SamplingRow

__all__ = ["draw", "sample"]


def sample(logits: NDArray[np.float32], rows: Sequence[SamplingRow], live_vocab: int) -> list[Choice]:
    """Choose one token for each row of raw logits [M, V] float32; rows do not influence one another.

    Ids >= live_vocab are dead vocabulary rows: never chosen (but they may be forced), never an alternative.
    Raises NumericalError when a row holds NaN or infinity, RequestError when a row's own options leave
    nothing to choose from, and ValueError for rows that do not fit the logits.
    """
    check_rows(logits, rows)
    return [_choose(raw, row, live_vocab) for raw, row in zip(logits, rows, strict=True)]


def _choose(raw: NDArray[np.float32], row: SamplingRow, live_vocab: int) -> Choice:
    if not np.isfinite(raw).all():
        raise damaged_logits()
    token = _processed_choice(raw, row, live_vocab) if row.forced is None else row.forced
    if row.logprobs is None:
        return Choice(token)
    peak = raw.max()
    likely = _most_likely(raw[:live_vocab], row.logprobs)
    return with_logprobs(token, raw, float(peak), int(weigh(raw, peak).sum()), likely)


def _processed_choice(raw: NDArray[np.float32], row: SamplingRow, live_vocab: int) -> int:
    x = process_logits(raw, row, live_vocab)
    if not np.isfinite(x.max()):
        raise nothing_to_choose()
    return int(np.argmax(x)) if row.temperature == 0 else draw(x, row)


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
