"""What the engine has done, as plain data: a record for each step, and sums since the start."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, fields
from typing import NamedTuple

__all__ = ["EngineStats", "StepLog", "StepRecord"]

REMEMBERED = 1024
"""Records of steps that are kept, the latest."""


class StepRecord(NamedTuple):
    """One step. Times are in seconds."""

    running: int
    """Sequences that own state, when the step began."""
    waiting: int
    """Sequences in the queue, then."""
    prompt_tokens: int
    """Computed in this step, of prompts (and of replies that are computed again after a preemption)."""
    decoded: int
    """Sequences that computed one token of their reply."""
    chosen: int
    """Tokens that were chosen."""
    scheduling: float
    """Admission, sharing out, laying out the batch, snapshots."""
    computing: float
    """The model."""
    sampling: float
    writing: float
    """Appending the chosen tokens: their text, and whether a reply ends."""


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
    pages: int


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
        self, *, running: int, waiting: int, snapshots: int, free_pages: int, pages: int
    ) -> EngineStats:
        """The sums, and what there is now."""
        sums = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "records"}
        now = {"running": running, "waiting": waiting, "snapshots": snapshots}
        return EngineStats(**sums, **now, free_pages=free_pages, pages=pages)
