"""What a choice reports, and the two ways in which a row of logits offers none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from qanat.backends.common.weights import MOST_IDS, UNIT
from qanat.errors import NumericalError, RequestError
from qanat.model.sampling import Choice, SamplingRow

__all__ = ["check_rows", "damaged_logits", "nothing_to_choose", "with_logprobs"]


def check_rows(logits: NDArray[np.float32], rows: Sequence[SamplingRow]) -> None:
    """Raise ValueError unless logits [M, V] and M sampling rows can go together."""
    count, vocab = logits.shape
    if count != len(rows):
        raise ValueError(f"{count} rows of logits, but {len(rows)} sampling rows")
    if vocab > MOST_IDS:
        raise ValueError(f"{vocab} ids: sums of weights hold at most {MOST_IDS}")
    for row in rows:
        if row.forced is not None and not 0 <= row.forced < vocab:
            raise ValueError(f"the forced token {row.forced} is none of {vocab} ids")


def damaged_logits() -> NumericalError:
    """For a raw logit that is NaN or infinite."""
    return NumericalError(
        "the model computed a logit that is not a finite number: its weights are damaged, or a value "
        "overflowed; check the model folder, or try the backend 'reference' with weights 'f32'"
    )


def nothing_to_choose() -> RequestError:
    """For a row whose own options leave no finite logit, or an infinite one."""
    return RequestError(
        "every token is banned, or a penalty, bias or temperature is so extreme that logits overflow; "
        "loosen logit_bias, repetition_penalty or temperature"
    )


def with_logprobs(
    token: int, raw: NDArray[np.float32], peak: float, mass: int, likely: Iterable[int]
) -> Choice:
    """The token with its log probability, and those of the `likely` ids.

    raw: logits [V]; peak: the largest of them; mass: the sum of their weights (`weigh`), dead rows included.
    """
    log_total = peak + math.log(mass / UNIT)
    return Choice(token, float(raw[token]) - log_total, tuple((i, float(raw[i]) - log_total) for i in likely))
