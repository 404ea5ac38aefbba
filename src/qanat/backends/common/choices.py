"""What a choice reports, and the two ways in which a row of logits offers none."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from qanat.backends.common.weights import UNIT
from qanat.errors import NumericalError, RequestError
from qanat.model.sampling import Choice

__all__ = ["damaged_logits", "nothing_to_choose", "with_logprobs"]


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
