"""A model of pure bookkeeping: every slot and page must hold exactly what its sequence has read.

A slot holds a hash of the sequence so far (as recurrent state does), a page the tokens themselves (as keys
and values do). A step reads both and compares: a stale slot, a wrong page, length, position or row turns a
test red. The logits are a function of the hash, so the next token depends on the whole sequence alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.backends.reference.sampling import sample
from qanat.engine.guide import Guide, Limits
from qanat.engine.sampling_params import SamplingParams
from qanat.engine.scheduler import Scheduler
from qanat.engine.sequence import Sequence as Running
from qanat.engine.stop_strings import StopStrings
from qanat.engine.text_output import TextOutput
from qanat.model.batch import FRESH, Batch
from qanat.model.ops import HeadOutput
from qanat.model.sampling import Choice, SamplingRow

VOCAB = 30
MODULUS = (1 << 61) - 1
GARBAGE = -7


def extend(state: int, token: int) -> int:
    return (state * 1_000_003 + token + 1) % MODULUS


def hash_of(tokens: Sequence[int]) -> int:
    state = 0
    for token in tokens:
        state = extend(state, token)
    return state


def logits_of(state: int) -> NDArray[np.float32]:
    return np.random.default_rng(state).standard_normal(VOCAB).astype(np.float32) * 2


@dataclass
class FakeState:
    slots: list[int]
    pages: NDArray[np.int32]


@dataclass
class FakeOps:
    live: int = VOCAB

    def copy_pages(self, state: FakeState, sources: Sequence[int], targets: Sequence[int]) -> None:
        assert not set(sources) & set(targets)
        state.pages[list(targets)] = state.pages[list(sources)]

    def sample(
        self, logits: NDArray[np.float32], rows: Sequence[SamplingRow], live_vocab: int
    ) -> list[Choice]:
        return sample(logits, rows, live_vocab)


@dataclass
class FakeModel:
    ops: Any = field(default_factory=FakeOps)
    batches: list[Batch] = field(default_factory=list)
    fail_at: int | None = None
    error: BaseException = field(default_factory=lambda: ValueError("planned failure"))

    def new_state(self, slots: int, pages: int, page: int) -> FakeState:
        return FakeState([GARBAGE] * slots, np.full((pages, page), GARBAGE, np.int32))

    def forward(self, batch: Batch, state: FakeState) -> HeadOutput[Any]:
        self.batches.append(batch)
        if self.fail_at is not None and len(self.batches) > self.fail_at:
            raise self.error
        page = state.pages.shape[1]
        rows = np.zeros((len(batch.tokens), VOCAB), np.float32)
        wanted = set(batch.output_rows.tolist())
        read = [0 if slot == FRESH else state.slots[slot] for slot in batch.src_slot]  # before any is written
        for b, current in enumerate(read):
            first, stop, old = int(batch.starts[b]), int(batch.starts[b + 1]), int(batch.cache_len[b])
            held = state.pages[batch.page_table[b, : -(-old // page)]].reshape(-1)[:old].tolist()
            assert (batch.src_slot[b] == FRESH) == (old == 0), "a sequence starts from nothing exactly once"
            assert current == hash_of(held), "recurrent state and pages hold different sequences"
            assert batch.rope_positions[:, first:stop].tolist() == [list(range(old, old + stop - first))] * 3
            for row in range(first, stop):
                at = old + row - first
                state.pages[batch.page_table[b, at // page], at % page] = batch.tokens[row]
                current = extend(current, int(batch.tokens[row]))
                if row in wanted:
                    rows[row] = logits_of(current)
            state.slots[int(batch.dst_slot[b])] = current
        return HeadOutput(hidden=rows[:0], logits=rows[batch.output_rows])


class Letters:
    """Decodes id i to one letter."""

    def step(self, token: int, /) -> str:
        return chr(ord("A") + token)

    def flush(self) -> str:
        return ""


class Rule:
    """A form without a grammar: after some tokens others are forced, after some only a few are allowed."""

    done = False

    def __init__(self) -> None:
        self._count = 0
        self._last = 1

    def limits(self) -> Limits:
        """A function of the last token and how many there were."""
        following = (7 * self._last + 3 * self._count) % 16 + 1
        if (self._last + self._count) % 3 == 0:
            return Limits(allowed=np.array([1 << following], np.uint32))
        if (self._last + self._count) % 7 == 1:
            return Limits(forced=following)
        return Limits(allowed=np.array([0b1010_1010_1010_1010], np.uint32)) if self._last % 2 else Limits()

    def accept(self, token: int) -> None:
        """Go on."""
        self._last, self._count = token, self._count + 1


def make(
    prompt: list[int],
    params: SamplingParams | None = None,
    *,
    limit: int = 12,
    seed: int = 0,
    end: int = 0,
    choice_index: int = 0,
    **options: Any,
) -> Running:
    params = params or SamplingParams.greedy()
    text = TextOutput(Letters(), StopStrings(params.stops, include=params.include_stop))
    if params.thinking_budget is not None:  # these tests' sign for such a reply
        options["guide"] = Guide([Rule()])
    return Running(
        prompt,
        params,
        seed=seed,
        choice_index=choice_index,
        limit=limit,
        end_ids=frozenset() if params.ignore_eos else frozenset({end}),
        stop_ids=frozenset(params.stop_token_ids),
        text=text,
        **options,
    )


def scheduler(model: FakeModel | None = None, **sizes: int) -> Scheduler:
    options = {"slots": 4, "pages": 40, "page": 4, "live_vocab": VOCAB - 2, "step_tokens": 16, **sizes}
    return Scheduler(model or FakeModel(), **options)


def finish(engine: Scheduler, sequences: Sequence[Running]) -> None:
    engine.submit(sequences)
    engine.advance(lambda: all(s.done for s in sequences))


def alone(
    prompt: list[int], params: SamplingParams | None = None, *, limit: int = 12, seed: int = 0
) -> list[int]:
    """What a request gives by itself, in an engine of its own."""
    s = make(prompt, params, limit=limit, seed=seed)
    finish(scheduler(slots=1, step_tokens=500), [s])
    return [int(t) for t in s.output]
