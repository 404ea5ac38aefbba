"""One reply in the making: its tokens, its place in the state, and when it ends."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qanat.engine.sampling_params import SamplingParams
from qanat.engine.text_output import TextOutput
from qanat.model.sampling import Choice, SamplingRow

__all__ = ["FinishReason", "Piece", "Sequence"]

FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True)
class Piece:
    """One generated token and the text that it made certain (often none, sometimes of earlier tokens)."""

    choice: Choice
    text: str


class Sequence:
    """One reply to one prompt.

    Args:
        prompt: token ids, at least one.
        params: with no inherited field left open, except max_tokens.
        seed: what the draws depend on, beside the choice and output index.
        choice_index: which of the `n` replies to the prompt.
        limit: the most tokens to generate; prompt and limit together fit the context.
        end_ids: the model's own end tokens (empty with ignore_eos).
        stop_ids: the request's.
        text: the decoder.
    """

    def __init__(
        self,
        prompt: list[int],
        params: SamplingParams,
        *,
        seed: int,
        choice_index: int,
        limit: int,
        end_ids: frozenset[int],
        stop_ids: frozenset[int],
        text: TextOutput,
    ) -> None:
        self.params = params
        self.seed = seed
        self.choice_index = choice_index
        self.limit = limit
        self.prompt_len = len(prompt)
        self._end_ids = end_ids
        self._least = params.min_tokens or 0
        self._stop_ids = stop_ids - end_ids
        self._banned = np.array(sorted(end_ids | self._stop_ids), np.int32)
        self._text = text
        self._tokens = np.array(prompt + [0] * 16, np.int32)
        self.length = len(prompt)  # tokens known: prompt and output
        self.computed = 0  # tokens that the state holds
        self.pieces: deque[Piece] = deque()
        self.finish_reason: FinishReason | None = None
        self.error: BaseException | None = None
        # The scheduler's:
        self.slot: int | None = None
        self.pages: list[int] = []
        self.reserved = 0
        self.cancelled = False

    @property
    def done(self) -> bool:
        """Whether nothing more will come: finished, failed or cancelled."""
        return self.finish_reason is not None or self.error is not None or self.cancelled

    @property
    def total(self) -> int:
        """The most tokens that prompt and reply can have together."""
        return self.prompt_len + self.limit

    @property
    def output_len(self) -> int:
        """Tokens generated so far."""
        return self.length - self.prompt_len

    @property
    def output(self) -> NDArray[np.int32]:
        """The generated ids."""
        return self._tokens[self.prompt_len : self.length]

    def pending(self, most: int) -> NDArray[np.int32]:
        """The next known tokens that the state does not hold yet, at most so many."""
        return self._tokens[self.computed : min(self.length, self.computed + most)]

    def sampling_row(self) -> SamplingRow:
        """What the backend needs to choose the next token."""
        p = self.params
        return SamplingRow(
            temperature=p.temperature or 0.0,
            top_k=p.top_k or 0,
            top_p=1.0 if p.top_p is None else p.top_p,
            min_p=p.min_p or 0.0,
            repetition_penalty=1.0 if p.repetition_penalty is None else p.repetition_penalty,
            presence_penalty=p.presence_penalty or 0.0,
            frequency_penalty=p.frequency_penalty or 0.0,
            logit_bias=p.logit_bias,
            banned=self._banned if self.output_len < self._least else self._banned[:0],
            prompt=self._tokens[: self.prompt_len],
            output=self.output,
            seed=self.seed,
            choice_index=self.choice_index,
            output_index=self.output_len,
            logprobs=p.logprobs,
        )

    def accept(self, choice: Choice) -> None:
        """Append the chosen token, decode it, and decide whether the reply ends."""
        token = choice.token
        if self.length == len(self._tokens):
            self._tokens = np.concatenate([self._tokens, np.zeros_like(self._tokens)])
        self._tokens[self.length] = token
        self.length += 1
        hidden = token in self._stop_ids and not self.params.include_stop
        text = "" if hidden else self._text.add(token, watch=self.output_len >= self._least)
        reason: FinishReason | None = None
        if token in self._end_ids or token in self._stop_ids or self._text.stopped:
            reason = "stop"
        elif self.output_len >= self.limit:
            reason = "length"
        if reason is not None:
            text += self._text.finish()
            if self._text.stopped:  # a stop text that had been waiting for an earlier beginning
                reason = "stop"
        self.pieces.append(Piece(choice, text))
        self.finish_reason = reason  # last: a reader in another thread that sees it must find all pieces
