"""One reply in the making: its tokens, its place in the state, and when it ends."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from qanat.engine.guide import FREE, Guide
from qanat.engine.sampling_params import SamplingParams
from qanat.engine.text_output import TextOutput
from qanat.errors import RequestError
from qanat.model.sampling import Choice, SamplingRow

if TYPE_CHECKING:
    from qanat.engine.prefix_cache import Snapshot

__all__ = ["FinishReason", "Piece", "Sequence", "nobody"]

MOST_FOREGONE = 16
"""Tokens that are appended after one that was chosen: whoever shares the step waits for them."""

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
        marks: after so many tokens of the prompt a snapshot is taken, ascending.
        priority: the higher goes first.
        salt: prefixes are shared only with sequences of the same salt.
        leader: another reply to the same prompt, which reads it for this one too.
        deadline: when it must have ended, by time.monotonic().
        guide: what may be said; None: anything.
        tells_progress: whether who listens wants to know how far the prompt has been read.
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
        marks: Seq[int] = (),
        priority: int = 0,
        salt: str = "",
        leader: Sequence | None = None,
        deadline: float | None = None,
        guide: Guide | None = None,
        tells_progress: bool = False,
    ) -> None:
        self.params = params
        self.seed = seed
        self.choice_index = choice_index
        self.limit = limit
        self.marks = tuple(marks)
        self.priority = priority
        self.salt = salt
        self.leader = leader
        self.deadline = deadline
        self._guide = guide
        self.tells_progress = tells_progress
        self.prompt_len = len(prompt)
        self._end_ids = end_ids
        self._least = params.min_tokens or 0
        self._stop_ids = stop_ids - end_ids
        self._banned = np.array(sorted(end_ids | self._stop_ids), np.int32)
        self._text = text
        self._tokens = np.array(prompt + [0] * 16, np.int32)
        self.length = len(prompt)  # tokens known: prompt and output
        self.computed = 0  # tokens that the state holds
        self.reached = 0  # the most that it ever held
        self.prompt_choices: list[Choice] = []  # if asked for: of the prompt's tokens from the second on
        self.pieces: deque[Piece] = deque()
        self.finish_reason: FinishReason | None = None
        self.error: BaseException | None = None
        self.notify: Callable[[], None] = nobody  # called when there is a new piece, and at the end
        self.cached: int | None = None  # tokens of the prompt that a snapshot spared
        # The scheduler's:
        self.arrival = 0
        self.latest = 0.0  # when it was queued, or its latest token was chosen, by time.perf_counter()
        self.cancelled = False
        # The state memory's:
        self.slot: int | None = None  # written by the next step
        self.source: int | None = None  # read by the next step
        self.resumed_from: Snapshot | None = None  # what `source` belongs to, if not to this sequence
        self.pages: list[int] = []

    @property
    def done(self) -> bool:
        """Whether nothing more will come: finished, failed or cancelled."""
        return self.finish_reason is not None or self.error is not None or self.cancelled

    @property
    def rank(self) -> tuple[int, int]:
        """Its place in the queue: by priority, then by arrival."""
        return -self.priority, self.arrival

    @property
    def waits_for_leader(self) -> bool:
        """Whether another sequence is still reading the prompt for this one."""
        leader = self.leader
        if leader is None or leader.done or leader.output_len:
            return False
        return leader.computed < leader.prompt_len - 1

    @property
    def reads_all(self) -> bool:
        """Whether every token of the prompt has to be computed, whatever snapshots there are."""
        return self.params.prompt_logprobs is not None and len(self.prompt_choices) < self.prompt_len - 1

    @property
    def missing(self) -> int:
        """Known tokens that the state does not hold yet."""
        return self.length - self.computed

    def advance(self, count: int) -> None:
        """The state holds `count` more of the known tokens."""
        self.computed += count
        self.reached = max(self.reached, self.computed)
        if self.tells_progress and not self.output_len:
            self.notify()

    @property
    def next_chunk(self) -> int:
        """The most tokens of one step: a mark is where a step has to end."""
        after = bisect_right(self.marks, self.computed)
        stop = self.marks[after] if after < len(self.marks) else self.length
        return min(stop, self.length) - self.computed

    @property
    def total(self) -> int:
        """The most tokens that prompt and reply can have together."""
        return self.prompt_len + self.limit

    @property
    def output_len(self) -> int:
        """Tokens generated so far."""
        return self.length - self.prompt_len

    @property
    def tokens(self) -> NDArray[np.int32]:
        """The ids of prompt and output."""
        return self._tokens[: self.length]

    @property
    def output(self) -> NDArray[np.int32]:
        """The generated ids."""
        return self._tokens[self.prompt_len : self.length]

    def pending(self, most: int) -> NDArray[np.int32]:
        """The next known tokens that the state does not hold yet, at most so many."""
        return self._tokens[self.computed : min(self.length, self.computed + most)]

    def scored(self, count: int) -> range:
        """Which of the next `count` tokens, from 0 on, have logits wanted for the prompt's log probabilities.

        A token's logits tell about the token after it. What is known is not asked for again, even if the
        state has to be computed again.
        """
        if self.params.prompt_logprobs is None:
            return range(0)
        first = len(self.prompt_choices) - self.computed
        rows = range(first, min(count, self.prompt_len - 1 - self.computed))
        assert not rows or first >= 0, "the state went past tokens whose log probabilities are wanted"
        return rows

    def cut(self, count: int, rows: int) -> int:
        """How many of the next `count` tokens to compute, if at most `rows` of them may be `scored`."""
        scored = self.scored(count)
        return count if len(scored) <= rows else scored.start + rows

    def prompt_row(self, row: int) -> SamplingRow:
        """What the backend needs to tell about the token after the one that is `row` from here."""
        following = int(self._tokens[self.computed + row + 1])
        return SamplingRow(forced=following, logprobs=self.params.prompt_logprobs)

    def sampling_row(self) -> SamplingRow:
        """What the backend needs to choose the next token."""
        p = self.params
        limits = FREE if self._guide is None else self._guide.limits
        # A form says by itself where a reply may end.
        early = self.output_len < self._least and limits.allowed is None
        banned = self._banned if early else self._banned[:0]
        if limits.banned is not None and len(limits.banned):
            banned = np.concatenate([banned, limits.banned])
        return SamplingRow(
            temperature=p.temperature or 0.0,
            top_k=p.top_k or 0,
            top_p=1.0 if p.top_p is None else p.top_p,
            min_p=p.min_p or 0.0,
            repetition_penalty=1.0 if p.repetition_penalty is None else p.repetition_penalty,
            presence_penalty=p.presence_penalty or 0.0,
            frequency_penalty=p.frequency_penalty or 0.0,
            logit_bias=p.logit_bias,
            banned=banned,
            allowed=limits.allowed,
            forced=limits.forced,
            prompt=self._tokens[: self.prompt_len],
            output=self.output,
            seed=self.seed,
            choice_index=self.choice_index,
            output_index=self.output_len,
            logprobs=p.logprobs,
        )

    def accept(self, choice: Choice) -> None:
        """Append the chosen token, decode it, and decide whether the reply ends.

        Where the guide leaves only one token to choose next, it is appended at once, and computed together
        with the one before: the same tokens in fewer steps.
        """
        self._append(choice)
        for _ in range(MOST_FOREGONE):
            if (token := self._foregone) is None:
                break
            self._append(Choice(token))
        self.notify()

    @property
    def _foregone(self) -> int | None:
        """The next token, if it needs no logits."""
        if self._guide is None or self.done or self.params.logprobs is not None:
            return None
        return self._guide.limits.only

    def _append(self, choice: Choice) -> None:
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
        if reason is None and self._guide is not None:
            try:
                self._guide.accept(token)
            except RequestError as error:
                self.fail(error)
                return
        self.pieces.append(Piece(choice, text))
        self.finish_reason = reason  # last: a reader in another thread that sees it must find all pieces

    def fail(self, error: BaseException) -> None:
        """End it with an error."""
        self.error = error
        self.notify()


def nobody() -> None:
    """Nobody listens."""
