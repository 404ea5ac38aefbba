"""What the engine has done, as plain data: a record for each step, and sums since the start."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import reduce
from typing import Any, NamedTuple

__all__ = ["WAIT_BOUNDS", "EngineStats", "StepLog", "StepRecord", "Waits", "add_up"]

REMEMBERED = 1024
"""Records of steps that are kept, the latest."""


WAIT_BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 25.0, 50.0, 100.0, 250.0),
)
"""Seconds, ascending, between which waits are told apart."""


class StepRecord(NamedTuple):
    """One step. Times are in seconds."""

    running: int
    """Sequences that own state, when the step began."""
    waiting: int
    """Sequences in the queue, then."""
    prompt_tokens: int
    """Computed in this step, of prompts (and of replies that are computed again after a preemption)."""
    decoded: int
    """Tokens of replies, computed for the first time: one of each sequence, or several without a choice."""
    chosen: int
    """Tokens that the replies gained."""
    scheduling: float
    """Admission, sharing out, laying out the batch, snapshots."""
    computing: float
    """The model."""
    sampling: float
    writing: float
    """Appending the chosen tokens: their text, and whether a reply ends."""


@dataclass(frozen=True)
class Waits:
    """How long something took, each time: a histogram."""

    counts: tuple[int, ...] = (0,) * (len(WAIT_BOUNDS) + 1)
    """How often at most each of `WAIT_BOUNDS` and above the one before; the last: above all of them."""
    seconds: float = 0.0
    """All of them together."""


@dataclass(frozen=True)
class EngineStats:
    """Sums since the start, and what there is now."""

    steps: int
    prompt_tokens: int
    """Tokens of prompts that were computed, those computed again included."""
    cached_tokens: int
    """Tokens of prompts that snapshots spared."""
    output_tokens: int
    scheduling: float
    computing: float
    sampling: float
    writing: float
    finished: int
    failed: int
    cancelled: int
    expired: int
    preemptions: int
    running: int
    waiting: int
    snapshots: int
    free_pages: int
    held_pages: int
    """Owned by running sequences. What is neither free nor held is snapshots', who give it up when wanted."""
    pages: int
    first_token: Waits
    """From the queue to a reply's first token."""
    next_token: Waits
    """From a reply's token to its next."""


def add_up(all_stats: Iterable[EngineStats]) -> EngineStats:
    """The figures of several engines together. There must be one at least."""
    return reduce(_add, all_stats)


def _add(one: Any, other: Any) -> Any:
    if is_dataclass(one) and not isinstance(one, type):
        return type(one)(*(_add(getattr(one, f.name), getattr(other, f.name)) for f in fields(one)))
    if isinstance(one, tuple):
        return tuple(_add(a, b) for a, b in zip(one, other, strict=True))
    return one + other


@dataclass
class StepLog:
    """Counters that the scheduler keeps."""

    records: deque[StepRecord] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    steps: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    scheduling: float = 0.0
    computing: float = 0.0
    sampling: float = 0.0
    writing: float = 0.0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    preemptions: int = 0
    _first_token: _Tally = field(default_factory=lambda: _Tally())
    _next_token: _Tally = field(default_factory=lambda: _Tally())

    def token(self, seconds: float, *, first: bool) -> None:
        """Count a token, that came so long after the one before, or after its request."""
        (self._first_token if first else self._next_token).add(seconds)

    def add(self, record: StepRecord) -> None:
        """Count a step."""
        self.records.append(record)
        self.steps += 1
        self.prompt_tokens += record.prompt_tokens
        self.output_tokens += record.chosen
        self.scheduling += record.scheduling
        self.computing += record.computing
        self.sampling += record.sampling
        self.writing += record.writing

    def total(
        self, *, running: int, waiting: int, snapshots: int, free_pages: int, held_pages: int, pages: int
    ) -> EngineStats:
        """The sums, and what there is now."""
        sums = {f.name: getattr(self, f.name) for f in fields(self) if f.type in ("int", "float")}
        return EngineStats(
            **sums,
            running=running,
            waiting=waiting,
            snapshots=snapshots,
            free_pages=free_pages,
            held_pages=held_pages,
            pages=pages,
            first_token=self._first_token.waits(),
            next_token=self._next_token.waits(),
        )


class _Tally:
    """Waits while they are counted."""

    def __init__(self) -> None:
        self._counts = [0] * (len(WAIT_BOUNDS) + 1)
        self._seconds = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(WAIT_BOUNDS, seconds)] += 1
        self._seconds += seconds

    def waits(self) -> Waits:
        return Waits(tuple(self._counts), self._seconds)
