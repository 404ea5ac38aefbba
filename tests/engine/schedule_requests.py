"""Requests as the drawn schedules make them, and what is right for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import strategies as st

from qanat.backends.reference.sampling import sample
from qanat.engine.sampling_params import SamplingParams
from qanat.engine.sequence import Sequence as Running
from tests.engine.fake_model import VOCAB, hash_of, logits_of, make

PARAMS = [
    SamplingParams(temperature=0.0, frequency_penalty=0.7, ignore_eos=True),
    SamplingParams(temperature=1.5, frequency_penalty=0.6, repetition_penalty=1.1),
    SamplingParams(temperature=1.0, presence_penalty=0.8, min_tokens=4),
    SamplingParams(temperature=3.0, stop=["FF", "AC", "B"], ignore_eos=True),
    SamplingParams.greedy(),
    SamplingParams(temperature=1.0, frequency_penalty=0.4, thinking_budget=1, ignore_eos=True),
]
EVERY = 16
"""Tokens between two snapshots of a long prompt, here."""


@dataclass(eq=False)
class Asked:
    """A request and what came of it."""

    s: Running
    prompt: tuple[int, ...]
    params: int
    wanted: frozenset[int]
    seen: bool = False
    preempted: bool = False

    @property
    def ends(self) -> range:
        """Tokens that may have been computed at its end: all but the last, and those that were foregone."""
        guided = PARAMS[self.params].thinking_budget is not None
        return range(self.s.prompt_len if guided else self.s.length - 1, self.s.length)

    @property
    def key(self) -> tuple[Any, ...]:
        return self.prompt, self.params, self.s.limit, self.s.seed, self.s.choice_index


@dataclass
class Request:
    """What is drawn of a request."""

    letters: list[int]
    base: int | None
    cut: int
    more: bool
    turn: bool
    params: int
    limit: int
    n: int
    priority: int
    salt: str
    time: int | None


REQUESTS = st.builds(
    Request,
    letters=st.lists(st.integers(1, 20), min_size=1, max_size=16),
    base=st.sampled_from([None, 0, 0, 1, 2, 4]),
    cut=st.sampled_from([0, 0, 1, 2, 5]),
    more=st.booleans(),
    turn=st.booleans(),
    params=st.integers(0, len(PARAMS) - 1),
    limit=st.integers(1, 18),
    n=st.sampled_from([1, 1, 1, 1, 2, 3]),
    priority=st.sampled_from([0, 0, 0, 1, 2]),
    salt=st.sampled_from(["", "", "a"]),
    time=st.none() | st.integers(5, 60),
)


def wanted_marks(prompt: Sequence[int], turn: Sequence[int], choices: int) -> frozenset[int]:
    """Where snapshots of a prompt belong, told anew: see `snapshot_marks`."""
    size, inside = len(turn), range(1, len(prompt))
    turns = [i for i in range(size, len(prompt) + 1) if tuple(prompt[i - size : i]) == tuple(turn)]
    return frozenset(
        i for i in inside if i in turns[-1:] or i % EVERY == 0 or (choices > 1 and i == len(prompt) - 1)
    )


@cache
def cold_reply(prompt: tuple[int, ...], params: int, limit: int, seed: int, choice: int) -> list[int]:
    s = make(list(prompt), PARAMS[params], limit=limit, seed=seed, choice_index=choice)
    while not s.done:
        logits = logits_of(hash_of(s.tokens.tolist()))[None]
        s.accept(sample(logits, [s.sampling_row()], VOCAB - 2)[0])
    return s.output.tolist()
