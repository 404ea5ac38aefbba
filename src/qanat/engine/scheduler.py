"""Continuous batching: requests join and leave the batch between steps, in whatever order they come.

A waiting sequence is admitted, first come first served, when a slot is free and the pages that it can need
at most are not promised to others; it then runs to its end. Several threads may wait for results: one of
them computes the next step for all, the others sleep until it is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from threading import Condition
from typing import Any, Protocol

from qanat.engine.batch_builder import Work, build_batch, share_tokens
from qanat.engine.interrupts import interrupts_deferred
from qanat.engine.memory import STEP_TOKENS
from qanat.engine.pools import PagePool, SlotPool
from qanat.engine.sequence import Sequence
from qanat.errors import RequestError
from qanat.model.batch import Batch
from qanat.model.ops import HeadOutput, Ops

__all__ = ["ForwardModel", "Scheduler"]


class ForwardModel(Protocol):
    """The part of `TextModel` that a step needs."""

    ops: Ops[Any]

    def new_state(self, slots: int, pages: int, page: int) -> Any:
        """Allocate the state."""

    def forward(self, batch: Batch, state: Any) -> HeadOutput[Any]:
        """Compute one step."""


class Scheduler:
    """Runs sequences on one model.

    Args:
        model: computes a step.
        slots: the most sequences at once.
        pages, page: the pool of keys and values: how many pages, of how many tokens.
        live_vocab: ids from here on are dead rows, never chosen.
        step_tokens: the most tokens of one step; never fewer than `slots`.
    """

    def __init__(
        self,
        model: ForwardModel,
        *,
        slots: int,
        pages: int,
        page: int,
        live_vocab: int,
        step_tokens: int = STEP_TOKENS,
    ) -> None:
        self._model = model
        self._live_vocab = live_vocab
        self._budget = max(step_tokens, slots)
        self.slots = SlotPool(slots)
        self.pages = PagePool(pages, page)
        self._state = model.new_state(slots, pages, page)
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._cancelled: deque[Sequence] = deque()
        self._changed = Condition()  # guards `_stepping` and the queue; notified after every step
        self._stepping = False

    @property
    def idle(self) -> bool:
        """Whether no sequence waits or runs, and every slot and page is free."""
        with self._changed:
            if self._stepping or self._waiting or self._running:
                return False
            self.check_integrity()
            return True

    def submit(self, sequences: Iterable[Sequence]) -> None:
        """Queue sequences.

        Raises:
            RequestError: one could never run, because its tokens exceed the whole page pool.
        """
        sequences = list(sequences)
        for s in sequences:
            if self.pages.pages_for(s.total) > self.pages.count:
                raise RequestError(
                    f"prompt and reply may take {s.total} tokens, but the state holds "
                    f"{self.pages.count * self.pages.page}; lower max_tokens or raise max_model_len"
                )
        with self._changed:
            self._waiting.extend(sequences)

    def advance(self, ready: Callable[[], bool]) -> None:
        """Step until `ready()` is true; return at once if it is."""
        while True:
            with self._changed:
                while not ready() and self._stepping:
                    self._changed.wait()
                if ready():
                    return
            with interrupts_deferred():
                self._step_unless_another_thread_does()

    def _step_unless_another_thread_does(self) -> None:
        with self._changed:
            if self._stepping:
                return
            self._stepping = True
        try:
            self._step()
        finally:
            with self._changed:
                self._stepping = False
                self._release_cancelled()
                self._changed.notify_all()

    def cancel(self, sequences: Iterable[Sequence]) -> None:
        """End sequences that have not ended; what they own is free when no step is under way any more.

        Safe to call from any thread, and from a generator's finaliser in the middle of a step.
        """
        with interrupts_deferred():
            for s in sequences:
                if not s.done:
                    s.cancelled = True
                    self._cancelled.append(s)
            with self._changed:
                if not self._stepping:
                    self._release_cancelled()

    def check_integrity(self) -> None:
        """Assert, between two steps, that each slot and page is free or owned by one running sequence."""
        with self._changed:
            while self._stepping:
                self._changed.wait()
            slots = [s.slot for s in self._running]
            pages = [p for s in self._running for p in s.pages]
            assert len(set(slots)) == len(slots), "two sequences share a slot"
            assert len(set(pages)) == len(pages), "two sequences share a page"
            assert len(slots) + self.slots.free == self.slots.count, "a slot is lost"
            assert len(pages) + self.pages.free == self.pages.count, "a page is lost"
            promised = sum(s.reserved for s in self._running)
            assert self.pages.available == self.pages.free - promised >= 0

    # -- inside a step -------------------------------------------------------------------------------

    def _step(self) -> None:
        """Admit, compute one batch, append the chosen tokens. A failure ends the sequences it touched: their
        owners find it in `error`; only an interrupt also ends the thread that was computing.
        """
        self._release_cancelled()
        self._admit()
        work = share_tokens(self._running, self._budget)
        if not work:
            assert not self._running, "a running sequence has nothing to compute"
            assert not self._waiting, "a sequence waits although nothing runs"
            return
        try:
            self._compute(work)
        except Exception as error:
            for w in work:
                w.sequence.error = error
        except BaseException:
            for w in work:
                w.sequence.error = RequestError("the computation was interrupted from another thread")
            raise
        finally:
            for w in work:
                if w.sequence.done:
                    self._release(w.sequence)

    def _compute(self, work: list[Work]) -> None:
        batch = build_batch(work, self.pages)
        out = self._model.forward(batch, self._state)
        choosing = [w.sequence for w in work if w.chooses]
        for w in work:
            w.sequence.computed += w.count
        if not choosing:
            return
        rows = [s.sampling_row() for s in choosing]
        choices = self._model.ops.sample(out.logits, rows, self._live_vocab)
        for s, choice in zip(choosing, choices, strict=True):
            s.accept(choice)

    def _admit(self) -> None:
        with self._changed:  # other threads submit meanwhile
            while self._waiting and self.slots.free:
                s = self._waiting[0]
                need = self.pages.pages_for(s.total)
                if not self.pages.reserve(need):
                    return
                self._waiting.popleft()
                s.slot, s.reserved = self.slots.take(), need
                self._running.append(s)

    def _release_cancelled(self) -> None:
        while self._cancelled:
            self._release(self._cancelled.popleft())

    def _release(self, s: Sequence) -> None:
        """Take a sequence out, wherever it is, and free what it owns. Harmless when it is out already."""
        with self._changed:
            if s in self._running:
                assert s.slot is not None
                self._running.remove(s)
                self.slots.give_back(s.slot)
                self.pages.give_back(s.pages, s.reserved)
                s.slot, s.pages, s.reserved = None, [], 0
            elif s in self._waiting:
                self._waiting.remove(s)
