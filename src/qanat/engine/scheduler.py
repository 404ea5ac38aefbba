"""Continuous batching: requests join and leave the batch between steps, in whatever order they come.

Waiting sequences are admitted in the order of their rank (priority, then arrival) as slots and pages allow;
nobody is let past. When pages run out, snapshots go first, then the running sequence of the lowest rank: it
waits again and computes again what it had computed, with the same result. The first in rank fits alone, so
something always goes on. Several threads may wait for results: one of them computes the next step for all,
the others sleep until it is done.
"""

from __future__ import annotations

import heapq
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable
from threading import Condition

from qanat.engine.batch_builder import Work, share_tokens
from qanat.engine.interrupts import interrupts_deferred
from qanat.engine.memory import STEP_TOKENS
from qanat.engine.sequence import Sequence
from qanat.engine.state_memory import StateMemory
from qanat.engine.stats import EngineStats, StepLog, StepRecord
from qanat.engine.stepper import ForwardModel, Stepper
from qanat.errors import DeadlineError, QueueFullError, RequestError

__all__ = ["Scheduler"]


class Scheduler:
    """Runs sequences on one model.

    Args:
        model: computes a step.
        slots: the most sequences at once.
        snapshots: the most snapshots of prefixes; 0 keeps none.
        pages, page: the pool of keys and values: how many pages, of how many tokens.
        live_vocab: ids from here on are dead rows, never chosen.
        step_tokens: the most tokens of one step; never fewer than `slots`.
        max_waiting: the most sequences in the queue; None: any number.
        debug: check after each step that no slot or page is lost or has a wrong owner.
    """

    def __init__(
        self,
        model: ForwardModel,
        *,
        slots: int,
        pages: int,
        page: int,
        live_vocab: int,
        snapshots: int = 0,
        step_tokens: int = STEP_TOKENS,
        max_waiting: int | None = None,
        debug: bool = False,
    ) -> None:
        self._model = model
        self._slots = slots
        self._budget = max(step_tokens, slots)
        self._most_waiting = max_waiting
        self._debug = debug
        self._state = model.new_state(slots + snapshots, pages, page)
        self.memory = StateMemory(
            running=slots, snapshots=snapshots, pages=pages, page=page, copy_pages=self._copy_pages
        )
        self._stepper = Stepper(model, self._state, self.memory, live_vocab)
        self._waiting: list[Sequence] = []  # by rank
        self._running: list[Sequence] = []  # by rank
        self._ended: deque[Sequence] = deque()  # by `cancel`, not released yet
        self._deadlines: list[tuple[float, int, Sequence]] = []  # a heap
        self._arrivals = 0
        self._log = StepLog()
        self._changed = Condition()  # guards `_stepping` and the queue; notified after every step
        self._stepping = False
        self._queueing = False

    def _copy_pages(self, sources: Iterable[int], targets: Iterable[int]) -> None:
        self._model.ops.copy_pages(self._state, list(sources), list(targets))

    @property
    def idle(self) -> bool:
        """Whether no sequence waits or runs, and every slot and page is free or a snapshot's."""
        with self._changed:
            if self._stepping or self._waiting or self._running:
                return False
            self.check_integrity()
            return True

    @property
    def busy(self) -> bool:
        """Whether a sequence waits or runs."""
        return bool(self._waiting or self._running)

    def submit(self, sequences: Iterable[Sequence]) -> None:
        """Queue sequences: all or none.

        Raises:
            RequestError: one could never run, because its tokens exceed the whole page pool.
            QueueFullError: the queue has no room for them.
        """
        sequences = list(sequences)
        pool = self.memory.pages
        for s in sequences:
            if pool.pages_for(s.total) > pool.count:
                raise RequestError(
                    f"prompt and reply may take {s.total} tokens, but the state holds "
                    f"{pool.count * pool.page}; lower max_tokens or raise max_model_len"
                )
        with self._changed:
            most = self._most_waiting
            if most is not None and len(sequences) > most + self._slots:
                raise RequestError(
                    f"{len(sequences)} replies were asked for at once, but {self._slots} can run and {most} "
                    "wait: ask for fewer at a time, or raise max_waiting"
                )
            if most is not None and len(self._waiting) + len(sequences) > most + max(0, self._vacant):
                raise QueueFullError(
                    f"{len(self._waiting)} sequences wait already, of at most {most}: try again later"
                )
            self._queueing = True
            now = time.perf_counter()
            try:
                for s in sequences:
                    self._arrivals += 1
                    s.arrival, s.latest = self._arrivals, now
                    insort(self._waiting, s, key=_rank)
                    if s.deadline is not None:
                        heapq.heappush(self._deadlines, (s.deadline, s.arrival, s))
                self._forget_ended()
            finally:
                self._queueing = False
                if not self._stepping:
                    self._release_ended()

    def _forget_ended(self) -> None:
        """Drop what has ended from the deadlines, once it is most of them: else it stays until its time."""
        if len(self._deadlines) > 2 * (len(self._waiting) + len(self._running)) + 32:
            self._deadlines = [entry for entry in self._deadlines if not entry[2].done]
            heapq.heapify(self._deadlines)

    @property
    def _vacant(self) -> int:
        """How many more could run at once, were there memory."""
        return self._slots - len(self._running)

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
                self._release_ended()
                self._changed.notify_all()

    def cancel(self, sequences: Iterable[Sequence], error: BaseException | None = None) -> None:
        """End sequences that have not ended, with an error if one is given; what they own is free when no
        step is under way any more.

        Safe to call from any thread, and from a generator's finaliser in the middle of a step.
        """
        with interrupts_deferred():
            for s in sequences:
                if not s.done:
                    s.error, s.cancelled = error, error is None
                    s.notify()
                    self._ended.append(s)
            with self._changed:  # which this thread may hold already: a finaliser runs anywhere
                if not (self._stepping or self._queueing):
                    self._release_ended()

    def check_integrity(self) -> None:
        """Assert, between two steps, that each slot and page is free or owned by those who say so."""
        with self._changed:
            while self._stepping:
                self._changed.wait()
            self._check()

    def _check(self) -> None:
        self.memory.check_integrity(self._running)
        assert len(self._running) <= self._slots
        for queue in (self._running, self._waiting):
            assert queue == sorted(queue, key=_rank), "a queue is out of order"
        assert all(s.slot is None and not s.pages and not s.computed for s in self._waiting)

    def stats(self) -> EngineStats:
        """What was done since the start, and what there is now."""
        return self._log.total(
            running=len(self._running),
            waiting=len(self._waiting),
            snapshots=len(self.memory.cache),
            free_pages=self.memory.pages.free,
            held_pages=len({page for s in [*self._running] for page in [*s.pages]}),
            pages=self.memory.pages.count,
        )

    def records(self) -> list[StepRecord]:
        """The latest steps, the oldest first."""
        return list(self._log.records)

    # -- inside a step -------------------------------------------------------------------------------

    def _step(self) -> None:
        """Admit, compute one batch, append the chosen tokens. A failure ends the sequences it touched: their
        owners find it in `error`; only an interrupt also ends the thread that was computing.
        """
        begin = time.perf_counter()
        self._release_ended()
        self._expire()
        self._admit()
        work = self._plan()
        if not work:
            assert not self._running, "a running sequence has nothing to compute"
            assert not self._waiting, "a sequence waits although nothing runs"
            return
        try:
            self._log.add(self._stepper.compute(work, begin, len(self._running), len(self._waiting)))
            self._note_tokens(work)
        except Exception as error:
            for w in work:
                w.sequence.fail(error)
        except BaseException:
            for w in work:
                w.sequence.fail(RequestError("the computation was interrupted from another thread"))
            raise
        finally:
            for w in work:
                if w.sequence.done:
                    self._release(w.sequence)
        if self._debug:
            with self._changed:
                self._check()

    def _note_tokens(self, work: list[Work]) -> None:
        now = time.perf_counter()
        for w in work:
            for place in range(w.written):  # those behind the first came with it
                waited = 0.0 if place else now - w.sequence.latest
                self._log.token(waited, first=w.begins and not place)
            w.sequence.latest = now if w.written else w.sequence.latest

    def _admit(self) -> None:
        with self._changed:  # other threads submit meanwhile
            while (s := next((s for s in self._waiting if not s.waits_for_leader), None)) is not None:
                if self._vacant and self.memory.admit(s, spare=len(self._running)):
                    self._waiting.remove(s)
                    insort(self._running, s, key=_rank)
                    self._log.cached_tokens += s.computed
                elif self._running and self._running[-1].priority < s.priority:
                    self._preempt(self._running[-1])
                else:
                    return

    def _plan(self) -> list[Work]:
        """Who computes how many tokens; all of them have the pages for it."""
        work = share_tokens(self._running, self._budget)
        for w in work:  # by rank: who has to leave comes later in this list
            s = w.sequence
            while s.slot is not None and not self.memory.grow(s, s.computed + w.count):
                with self._changed:
                    self._preempt(self._running[-1])
        return [w for w in work if w.sequence.slot is not None]

    def _preempt(self, s: Sequence) -> None:
        """Back into the queue, without any state."""
        self._running.remove(s)
        self.memory.release(s, keep=False)
        insort(self._waiting, s, key=_rank)
        self._log.preemptions += 1

    def _expire(self) -> None:
        now = time.monotonic()
        with self._changed:
            while self._deadlines and (self._deadlines[0][2].done or self._deadlines[0][0] <= now):
                s = heapq.heappop(self._deadlines)[2]
                if not s.done:
                    s.fail(
                        DeadlineError(
                            "the request had not ended when its time was up "
                            f"({s.output_len} tokens were written)"
                        )
                    )
                    self._release(s)

    def _release_ended(self) -> None:
        while self._ended:
            self._release(self._ended.popleft())

    def _release(self, s: Sequence) -> None:
        """Take a sequence out, wherever it is, and free what it owns. Harmless when it is out already."""
        with self._changed:
            if s in self._running:
                self._running.remove(s)
                self.memory.release(s, keep=s.error is None and not s.cancelled)
            elif s in self._waiting:
                self._waiting.remove(s)
            else:
                return
            if s.cancelled:
                self._log.cancelled += 1
            elif isinstance(s.error, DeadlineError):
                self._log.expired += 1
            elif s.error is not None:
                self._log.failed += 1
            else:
                self._log.finished += 1


def _rank(s: Sequence) -> tuple[int, int]:
    return s.rank
