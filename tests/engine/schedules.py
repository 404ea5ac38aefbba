"""Drawn schedules of everything that can happen to an engine, and what must hold after each event.

Requests arrive (new ones, or going on from what others have read and written), are cancelled between steps
and in the middle of one, run out of time, fail with the model; snapshots are dropped; pages are too few.
Each reply must be the one that its request gets alone and cold, from a model that has read nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from qanat.engine import marks
from qanat.engine import scheduler as scheduling
from qanat.engine.prefix_cache import PrefixCache, prefix_keys
from qanat.engine.scheduler import Scheduler
from qanat.engine.sequence import Sequence as Running
from qanat.engine.stepper import ForwardModel
from qanat.errors import DeadlineError, RequestError
from qanat.model.batch import Batch
from qanat.model.ops import HeadOutput
from tests.engine.fake_model import VOCAB, FakeModel, make
from tests.engine.schedule_requests import EVERY, PARAMS, REQUESTS, Asked, Request, cold_reply, wanted_marks


class PlannedError(Exception):
    """The model's, on request."""


@dataclass
class Watched:
    """A model that counts its steps, and fails or calls somebody in the middle of one on request."""

    model: ForwardModel
    before: Callable[[Batch], None]
    steps: int = 0
    copied: int = 0
    during: Callable[[], None] = lambda: None
    failing: str = ""

    @property
    def ops(self) -> Any:
        return self

    def new_state(self, slots: int, pages: int, page: int) -> Any:
        return self.model.new_state(slots, pages, page)

    def forward(self, batch: Batch, state: Any) -> HeadOutput[Any]:
        self.steps += 1
        self.before(batch)
        during, self.during = self.during, lambda: None
        during()
        if self.failing == "before":
            raise PlannedError
        out = self.model.forward(batch, state)
        if self.failing == "after":
            raise PlannedError
        if self.failing == "interrupt":
            raise KeyboardInterrupt
        return out

    def sample(self, logits: Any, rows: Any, live_vocab: int) -> Any:
        if self.failing == "sample":
            raise PlannedError
        return self.model.ops.sample(logits, rows, live_vocab)

    def copy_pages(self, state: Any, sources: Sequence[int], targets: Sequence[int]) -> None:
        self.copied += len(sources)
        self.model.ops.copy_pages(state, sources, targets)


@dataclass
class Clock:
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def perf_counter(self) -> float:
        return self.now


class Schedule(RuleBasedStateMachine):
    """On the fake model, which notices by itself what its slots and pages hold."""

    PAGE = 4
    PAGES = (9, 1)
    """The smallest pool, and by how many pages the next larger one has more."""
    STEP = 1
    """Tokens of a step, times 1 to 12."""
    LIMIT = 1
    """The longest reply, times 1 to 18."""
    LIVE = VOCAB - 2
    END = 0
    TURN: ClassVar[tuple[int, ...]] = (21, 22)
    happened: ClassVar[Counter[str]] = Counter()

    def model(self) -> ForwardModel:
        return FakeModel()

    def spell(self, letters: list[int]) -> list[int]:
        """Drawn numbers from 1 to 20 as token ids."""
        return letters

    def cold(self, asked: Asked) -> list[int]:
        """The reply to a request alone, without any engine."""
        return cold_reply(*asked.key)

    def again(self, earlier: Asked) -> list[int]:
        """What an earlier request read and wrote, as the beginning of a prompt."""
        return earlier.s.tokens.tolist()

    # -- the engine ----------------------------------------------------------------------------------

    def __init__(self) -> None:
        super().__init__()
        self.every: list[Asked] = []
        self.live: list[Asked] = []
        self.clock = Clock()
        self.engine: Any = None
        self.patches = [
            patch.object(scheduling, "time", self.clock),
            patch.object(marks, "EVERY", EVERY),
        ]
        for p in self.patches:
            p.start()

    @initialize(
        slots=st.sampled_from([1, 2, 3, 4, 4]),
        snapshots=st.sampled_from([0, 1, 3, 9, 9]),
        pages=st.sampled_from([0, 0, 1, 2, 4, 30]),
        step=st.integers(1, 12),
    )
    def start(self, slots: int, snapshots: int, pages: int, step: int) -> None:
        self.watched = Watched(self.model(), self.before_a_step)
        self.engine = Scheduler(
            self.watched,
            slots=slots,
            snapshots=snapshots,
            pages=self.PAGES[0] + pages * self.PAGES[1],
            page=self.PAGE,
            live_vocab=self.LIVE,
            step_tokens=step * self.STEP,
            debug=True,
        )
        self.memory = self.engine.memory
        self.listen()

    def listen(self) -> None:
        """Count what the drawn schedules bring about."""
        engine, memory = self.engine, self.memory
        admit, preempt, evict = memory.admit, engine._preempt, memory.cache.evict

        def admitted(s: Running, spare: int) -> bool:
            new = s.cached is None
            if not admit(s, spare):
                return False
            asked = self.of(s)
            self.happened["resumed from a snapshot"] += s.computed > 0
            self.happened["resumed after a preemption"] += asked.preempted and s.computed > 0
            self.happened["a reply read again"] += s.output_len > 0
            if new and s.leader is not None:
                self.happened["read by a leader"] += s.cached == s.prompt_len - 1
            return True

        def preempted(s: Running) -> None:
            waiting = [w for w in engine._waiting if not w.waits_for_leader]
            by_priority = bool(waiting) and waiting[0].priority > s.priority
            self.happened["preempted by priority" if by_priority else "preempted for pages"] += 1
            self.of(s).preempted = True
            preempt(s)

        def evicted() -> bool:
            done: bool = evict()
            self.happened["evicted"] += done
            return done

        memory.admit, engine._preempt, memory.cache.evict = admitted, preempted, evicted

    def of(self, s: Running) -> Asked:
        return next(a for a in self.every if a.s is s)

    def before_a_step(self, batch: Batch) -> None:
        """A step ends wherever a snapshot is wanted, and has no more tokens than it may."""
        assert len(batch.tokens) <= self.engine._budget
        work = {int(slot): b for b, slot in enumerate(batch.dst_slot)}
        for s in self.engine._running:
            if s.slot in work:
                b = work[s.slot]
                old, new = int(batch.cache_len[b]), int(batch.starts[b + 1] - batch.starts[b])
                assert not any(old < mark < old + new for mark in self.of(s).wanted), "a mark was passed over"

    def advance(self, ready: Callable[[], bool]) -> None:
        """Step on; whoever is first in rank needs no more steps than there are tokens in the whole pool."""
        calls, left = 0, len(self.live) + 1

        def enough() -> bool:
            nonlocal calls, left
            now = sum(not a.s.done for a in self.live)
            calls, left = (0, now) if now != left else (calls + 1, left)
            assert calls <= 4 * self.memory.pages.count * self.PAGE, "nothing comes to an end"
            return ready() or not now

        self.engine.advance(enough)

    # -- what happens --------------------------------------------------------------------------------

    @rule(requests=st.lists(REQUESTS, min_size=1, max_size=4))
    def ask(self, requests: list[Request]) -> None:
        """New prompts, or such that begin as what another request has read and written so far."""
        for r in requests:
            prompt = [*self.spell(r.letters), *self.TURN * r.turn]
            if r.base is not None and self.every:
                known = self.again(self.every[-1 - r.base % len(self.every)])
                prompt = known[: max(1, len(known) - r.cut)] + prompt * r.more
            limit = r.limit * self.LIMIT
            prompt = prompt[: self.memory.pages.count * self.PAGE - limit]
            deadline = None if r.time is None else self.clock.now + r.time
            self.submit(prompt, r.params, limit, r.n, priority=r.priority, salt=r.salt, deadline=deadline)

    def submit(self, prompt: list[int], params: int, limit: int, n: int, **options: Any) -> None:
        leader: Running | None = None
        asked = []
        for choice in range(n):
            s = make(
                prompt,
                PARAMS[params],
                limit=limit,
                seed=len(prompt) + params,
                end=self.END,
                choice_index=choice,
                marks=marks.snapshot_marks(prompt, self.TURN, choices=n),
                leader=leader,
                **options,
            )
            leader = leader or s
            asked.append(Asked(s, tuple(prompt), params, wanted_marks(prompt, self.TURN, n)))
        self.every += asked
        self.live += asked
        self.engine.submit([a.s for a in asked])

    @rule(count=st.integers(1, 6))
    def step(self, count: int) -> None:
        for _ in range(count):
            goal = self.watched.steps + 1
            self.advance(lambda goal=goal: self.watched.steps >= goal)
            self.clock.now += 1
            self.marks_are_kept()

    @rule(which=st.integers(0, 30))
    def finish(self, which: int) -> None:
        if self.live:
            s = self.live[which % len(self.live)].s
            self.advance(lambda: s.done)

    @rule(which=st.integers(0, 30), in_a_step=st.booleans())
    def cancel(self, which: int, in_a_step: bool) -> None:
        if self.live:
            s = self.live[which % len(self.live)].s
            if in_a_step:
                self.watched.during = lambda: self.engine.cancel([s])
                self.step(1)
            else:
                self.engine.cancel([s])

    @rule(prompt=st.lists(st.integers(1, 20), min_size=1, max_size=6), priority=st.integers(0, 2))
    def ask_in_a_step(self, prompt: list[int], priority: int) -> None:
        spelled = self.spell(prompt)
        self.watched.during = lambda: self.submit(spelled, 0, self.LIMIT, 1, priority=priority)
        self.step(1)

    @rule(seconds=st.integers(1, 30))
    def wait(self, seconds: int) -> None:
        self.clock.now += seconds

    @rule()
    def evict(self) -> None:
        PrefixCache.evict(self.memory.cache)

    @rule(
        how=st.sampled_from(["before", "after", "sample", "interrupt"]),
        cancelled=st.none() | st.integers(0, 30),
    )
    def fail(self, how: str, cancelled: int | None) -> None:
        self.watched.failing = how
        if cancelled is not None and self.live:
            s = self.live[cancelled % len(self.live)].s
            self.watched.during = lambda: self.engine.cancel([s])
        try:
            self.step(1)
        except KeyboardInterrupt:
            assert how == "interrupt"
        finally:
            self.watched.failing = ""

    # -- what must hold ------------------------------------------------------------------------------

    @invariant()
    def state_is_owned_and_replies_are_right(self) -> None:
        if self.engine is None:
            return
        self.engine.check_integrity()
        lengths = {length for a in self.every for length in (*a.wanted, *a.ends)}
        assert {snapshot.length for snapshot in self.memory.cache} <= lengths, "an unwanted snapshot"
        for a in self.every:
            if a.s.cached is not None and not a.seen:
                a.seen = True
                self.check_privacy(a)
        for a in [a for a in self.live if a.s.done]:
            self.live.remove(a)
            self.check_reply(a)

    def marks_are_kept(self) -> None:
        """Where a sequence stands on a mark there is a snapshot, if there is room for what a step needs."""
        cache = self.memory.cache
        if cache.most <= 2 * self.engine._slots:
            return
        kept = {snapshot.key for snapshot in cache}
        for s in self.engine._running:
            if s.computed in self.of(s).wanted:
                ((_, key),) = prefix_keys(s.tokens, s.salt, [s.computed])
                assert key in kept, "no snapshot was taken at a mark"

    def check_privacy(self, a: Asked) -> None:
        """What a snapshot spared has been read by another of the same salt."""
        begun = a.s.tokens[: a.s.cached].tolist()
        others = (o.s for o in self.every if o is not a and o.s.salt == a.s.salt)
        assert not begun or any(o.tokens[: len(begun)].tolist() == begun for o in others)

    def check_reply(self, a: Asked) -> None:
        s, got = a.s, a.s.output.tolist()
        expected = self.cold(a)
        if s.error is None and not s.cancelled:
            assert got == expected
            self.happened["finished"] += 1
            self.happened["finished after a preemption"] += a.preempted
            return
        assert got == expected[: len(got)]
        if s.error is not None and not isinstance(s.error, PlannedError | RequestError | DeadlineError):
            raise s.error  # what the model itself has noticed
        assert s.error is None or not isinstance(s.error, DeadlineError) or s.deadline <= self.clock.now
        self.happened["cancelled" if s.error is None else type(s.error).__name__] += 1

    def teardown(self) -> None:
        try:
            if self.engine is not None:
                self.end()
        finally:
            for p in self.patches:
                p.stop()

    def end(self) -> None:
        """Everything comes to an end; all state is free, or a snapshot's, and then free."""
        self.advance(lambda: False)
        self.state_is_owned_and_replies_are_right()
        assert self.engine.idle
        stats = self.engine.stats()
        assert stats.finished + stats.failed + stats.cancelled + stats.expired == len(self.every)
        self.happened["partial pages copied"] += self.watched.copied
        while PrefixCache.evict(self.memory.cache):
            pass
        assert self.memory.slots.free == self.memory.slots.count
        assert self.memory.pages.free == self.memory.pages.count


def examples(count: int, steps: int = 30, **options: Any) -> settings:
    return settings(
        max_examples=count,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        **options,
    )
