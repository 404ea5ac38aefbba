"""What a backend needs to choose one token: plain numbers, no request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["WORD_BITS", "Choice", "SamplingRow"]

_NONE: NDArray[np.int32] = np.zeros(0, np.int32)
WORD_BITS = 32
"""Ids in one word of `SamplingRow.allowed`."""


@dataclass(frozen=True)
class SamplingRow:
    """How one row of logits becomes one token (docs/numerics.md, "Sampling").

    temperature 0 is greedy: the lowest id among the largest processed logits. Order of the processors:
    bans, logit_bias, repetition, frequency, presence, temperature, top_k, top_p, min_p.
    The draw is a pure function of (processed logits, seed, choice_index, output_index).
    """

    temperature: float = 0.0
    top_k: int = 0
    """Keep the k largest and their ties; 0 keeps all."""
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    banned: NDArray[np.int32] = field(default_factory=lambda: _NONE)
    """Ids that must not be chosen (dead vocabulary rows are banned by the backend itself)."""
    allowed: NDArray[np.uint32] | None = None
    """If given, only ids whose bit is set may be chosen: id i is bit i % 32 of word i // 32, and ids beyond
    the last word may not. As a ban, it comes before all other processors."""
    prompt: NDArray[np.int32] = field(default_factory=lambda: _NONE)
    """Ids of the prompt: only the repetition penalty looks at them."""
    output: NDArray[np.int32] = field(default_factory=lambda: _NONE)
    """Ids generated so far in this reply."""
    seed: int = 0
    choice_index: int = 0
    output_index: int = 0
    logprobs: int | None = None
    """How many alternatives to report beside the chosen token; None reports nothing."""
    forced: int | None = None
    """The token is this one, whatever logits and options say: any row of the vocabulary, dead ones too,
    as a prompt may hold them. What is reported about it is what a choice of it would report."""


@dataclass(frozen=True)
class Choice:
    """The chosen token; log probabilities are of the raw logits, before any processor."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    """(id, logprob) of the `logprobs` most likely tokens, most likely first, ties by lower id."""
