"""One step: work is laid out and computed, tokens are chosen and appended."""

from __future__ import annotations

import time
from typing import Any, Protocol

from qanat.engine.batch_builder import Work, build_batch
from qanat.engine.state_memory import StateMemory
from qanat.engine.stats import StepRecord
from qanat.errors import QanatError
from qanat.model.batch import Batch
from qanat.model.ops import HeadOutput, Ops
from qanat.model.sampling import Choice, SamplingRow

__all__ = ["ForwardModel", "Stepper"]


class ForwardModel(Protocol):
    """The part of `TextModel` that a step needs."""

    ops: Ops[Any]

    def new_state(self, slots: int, pages: int, page: int) -> Any:
        """Allocate the state."""

    def forward(self, batch: Batch, state: Any) -> HeadOutput[Any]:
        """Compute one step."""


class Stepper:
    """Computes steps of one model.

    Args:
        model: computes a batch.
        state: the model's, all slots and pages.
        memory: learns what was computed.
        live_vocab: ids from here on are dead rows, never chosen.
    """

    def __init__(self, model: ForwardModel, state: Any, memory: StateMemory, live_vocab: int) -> None:
        self._model = model
        self._state = state
        self._memory = memory
        self._live_vocab = live_vocab

    def compute(self, work: list[Work], begin: float, running: int, waiting: int) -> StepRecord:
        """Compute, choose, append. What ends one sequence alone stands in its `error` afterwards.

        Args:
            work: of sequences that have the slots and pages for it.
            begin: when the step began, by time.perf_counter().
            running, waiting: for the record.
        """
        batch = build_batch(work)
        laid_out = time.perf_counter()
        out = self._model.forward(batch, self._state)
        computed = time.perf_counter()
        rows = [row for w in work for row in w.sampling_rows()]  # before `computed` moves
        for w in work:
            w.sequence.advance(w.count)
            self._memory.computed(w.sequence)
        looked_up = time.perf_counter()
        choices = self._choose(out.logits, rows) if rows else []
        sampled = time.perf_counter()
        decoded = sum(w.fresh for w in work)
        each = iter(choices)
        for w in work:
            w.take(each)
        written = time.perf_counter()
        return StepRecord(
            running=running,
            waiting=waiting,
            prompt_tokens=len(batch.tokens) - decoded,
            decoded=decoded,
            chosen=sum(w.written for w in work),
            scheduling=laid_out - begin + looked_up - computed,
            computing=computed - laid_out,
            sampling=sampled - looked_up,
            writing=written - sampled,
        )

    def _choose(self, logits: Any, rows: list[SamplingRow]) -> list[Choice | QanatError]:
        """A token for each row, or why there is none: that ends nobody else's reply."""
        try:
            return list(self._model.ops.sample(logits, rows, self._live_vocab))
        except QanatError as error:
            if len(rows) == 1:
                return [error]
        return [choice for i, row in enumerate(rows) for choice in self._choose(logits[i : i + 1], [row])]
