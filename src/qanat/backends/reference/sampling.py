"""Choosing tokens from rows of logits: greedy, or one draw from the candidates that are left.

The token is a pure function of (processed logits, seed, choice index, output index).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qanat.backends.reference.counter_rng import uniform
from qanat.backends.reference.processors import keep_candidates, process_logits
from qanat.errors import NumericalError, RequestError
from qanat.model.sampling import Choice, SamplingRow

__all__ = ["draw", "sample"]


def sample(logits: NDArray[np.float32], rows: Sequence[SamplingRow], live_vocab: int) -> list[Choice]:
    """Choose one token for each row of raw logits [M, V] float32; rows do not influence one another.

    Ids >= live_vocab are dead vocabulary rows: never chosen, never reported. Raises NumericalError when a row
    holds NaN or infinity, and RequestError when a row's own options leave nothing to choose from.
    """
    if len(logits) != len(rows):
        raise ValueError(f"{len(logits)} rows of logits, but {len(rows)} sampling rows")
    return [_choose(raw, row, live_vocab) for raw, row in zip(logits, rows, strict=True)]


def _choose(raw: NDArray[np.float32], row: SamplingRow, live_vocab: int) -> Choice:
    if not np.isfinite(raw).all():
        raise NumericalError(
            "the model computed a logit that is not a finite number: its weights are damaged, or a value "
            "overflowed; check the model folder, or try the backend 'reference' with weights 'f32'"
        )
    x = process_logits(raw, row, live_vocab)
    largest = x.max()
    if not np.isfinite(largest):
        raise RequestError(
            "every token is banned, or a penalty, bias or temperature is so extreme that logits overflow; "
            "loosen logit_bias, repetition_penalty or temperature"
        )
    token = int(np.argmax(x)) if row.temperature == 0 else draw(x, row)
    if row.logprobs is None:
        return Choice(token)
    return _with_logprobs(token, raw, row.logprobs, live_vocab)


def draw(x: NDArray[np.float32], row: SamplingRow) -> int:
    """Invert the cumulative distribution of processed logits [V] at this row's uniform number.

    The candidates are walked by descending logit, ties by lower id; the first whose cumulative weight
    exceeds u times the total is the token.
    """
    ids, weights = keep_candidates(x, row)
    cumulative = np.cumsum(weights)  # one addition after the other, left to right
    u = uniform(row.seed, row.choice_index, row.output_index)
    position = int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
    return int(ids[min(position, len(ids) - 1)])  # u * total may round up to the total itself


def _with_logprobs(token: int, raw: NDArray[np.float32], count: int, live_vocab: int) -> Choice:
    """Log probabilities of the raw row: the normaliser runs over all V rows, dead ones included."""
    peak = float(raw.max())
    log_total = peak + math.log(float(np.exp(raw.astype(np.float64) - peak).sum()))
    live = raw[:live_vocab]
    count = min(count, len(live))
    ids = np.zeros(0, np.int64)
    if count:
        ids = np.flatnonzero(live >= np.partition(live, len(live) - count)[len(live) - count])
        ids = ids[np.lexsort((ids, -live[ids]))][:count]
    top = tuple((int(i), float(live[i]) - log_total) for i in ids)
    return Choice(token, float(raw[token]) - log_total, top)
