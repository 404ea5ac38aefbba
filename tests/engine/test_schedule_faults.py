"""Faults of bookkeeping, planted one at a time: the drawn schedules must notice each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase
from hypothesis.stateful import run_state_machine_as_test

from qanat.engine import marks, prefix_cache
from qanat.engine.pools import PagePool
from qanat.engine.prefix_cache import PrefixCache, Snapshot
from qanat.engine.scheduler import Scheduler
from qanat.engine.sequence import Sequence as Running
from qanat.engine.state_memory import StateMemory
from tests.engine.schedules import Schedule, examples

Patch = pytest.MonkeyPatch


def stale_slot(patch: Patch) -> None:
    """A sequence without a snapshot begins from what its slot's last owner left."""
    begin = StateMemory._begin

    def begins(self: StateMemory, s: Running, snapshot: Snapshot | None, spare: int) -> bool:
        done = begin(self, s, snapshot, spare)
        if done and snapshot is None:
            s.source = s.slot
        return done

    patch.setattr(StateMemory, "_begin", begins)


def slot_not_switched(patch: Patch) -> None:
    """After a snapshot the sequence goes on writing the slot that the snapshot took over."""
    take = StateMemory._snapshot

    def taken(self: StateMemory, s: Running) -> None:
        take(self, s)
        if s.resumed_from is not None:
            assert s.slot is not None
            self.slots.give_back(s.slot)
            s.slot = s.source

    patch.setattr(StateMemory, "_snapshot", taken)


def off_by(tokens: int) -> Callable[[Patch], None]:
    def plant(patch: Patch) -> None:
        """A snapshot is found under the tokens up to one too early, or one too late."""
        keep = PrefixCache.keep

        def kept(self: PrefixCache, known: Any, salt: str, slot: int, pages: list[int]) -> Snapshot | None:
            whole = known.base[: len(known) + tokens] if known.base is not None else known
            return keep(self, whole, salt, slot, pages) if len(whole) else None

        patch.setattr(PrefixCache, "keep", kept)

    return plant


def partial_page_shared(patch: Patch) -> None:
    """Who resumes writes into the snapshot's own last page."""
    begin = StateMemory._begin

    def begins(self: StateMemory, s: Running, snapshot: Snapshot | None, spare: int) -> bool:
        done = begin(self, s, snapshot, spare)
        if done and snapshot is not None and snapshot.length % self.pages.page:
            last = len(snapshot.pages) - 1
            self.pages.share([snapshot.pages[last]])
            self.pages.give_back([s.pages[last]])
            s.pages[last] = snapshot.pages[last]
        return done

    patch.setattr(StateMemory, "_begin", begins)


def partial_page_not_copied(patch: Patch) -> None:
    patch.setattr(Scheduler, "_copy_pages", lambda self, sources, targets: None)


def salt_ignored(patch: Patch) -> None:
    keys = prefix_cache.prefix_keys
    patch.setattr(prefix_cache, "prefix_keys", lambda tokens, salt, lengths: keys(tokens, "", lengths))


def page_returned_twice(patch: Patch) -> None:
    give_back = PagePool.give_back
    patch.setattr(PagePool, "give_back", lambda self, pages: give_back(self, [*pages, *pages[-1:]]))


def page_never_returned(patch: Patch) -> None:
    give_back = PagePool.give_back
    patch.setattr(PagePool, "give_back", lambda self, pages: give_back(self, pages[:-1]))


def snapshots_pages_not_owned(patch: Patch) -> None:
    keep = PrefixCache.keep

    def kept(self: PrefixCache, tokens: Any, salt: str, slot: int, pages: list[int]) -> Snapshot | None:
        snapshot = keep(self, tokens, salt, slot, pages)
        if snapshot is not None:
            self._pages.give_back(pages)
        return snapshot

    patch.setattr(PrefixCache, "keep", kept)


def counts_lost(patch: Patch) -> None:
    """After a preemption the penalties count only what is written from then on."""
    release, row = StateMemory.release, Running.sampling_row
    known: dict[int, int] = {}

    def released(self: StateMemory, s: Running, *, keep: bool) -> None:
        known[id(s)] = s.output_len
        release(self, s, keep=keep)

    def cut(self: Running) -> Any:
        whole = row(self)
        object.__setattr__(whole, "output", whole.output[known.get(id(self), 0) :])
        return whole

    def init(self: Running, *args: Any, **options: Any) -> None:
        known.pop(id(self), None)
        made(self, *args, **options)

    made = Running.__init__
    patch.setattr(Running, "__init__", init)
    patch.setattr(StateMemory, "release", released)
    patch.setattr(Running, "sampling_row", cut)


def evicted_before_it_is_read(patch: Patch) -> None:
    def evict(self: PrefixCache) -> bool:
        pinned = [snapshot for snapshot in self if snapshot.readers]
        others = [snapshot for snapshot in self if not snapshot.readers]
        if not pinned:
            return honest(self)
        for snapshot in others:
            snapshot.readers = 1
        readers, pinned[0].readers = pinned[0].readers, 0
        honest(self)
        pinned[0].readers = readers
        for snapshot in others:
            snapshot.readers = 0
        return True

    honest = PrefixCache.evict
    patch.setattr(PrefixCache, "evict", evict)


def marks_off_by(tokens: int) -> Callable[[Patch], None]:
    def plant(patch: Patch) -> None:
        right = marks.snapshot_marks
        patch.setattr(
            marks, "snapshot_marks", lambda *a, **k: [m + tokens for m in right(*a, **k) if m + tokens > 0]
        )

    return plant


def reply_counted_wrong(patch: Patch) -> None:
    """What was finished is kept as if its last token had been computed."""
    release = StateMemory.release

    def released(self: StateMemory, s: Running, *, keep: bool) -> None:
        if keep and s.computed:
            s.computed += 1
        release(self, s, keep=keep)

    patch.setattr(StateMemory, "release", released)


FAULTS: dict[str, Callable[[Patch], None]] = {
    "a sequence starts from somebody's old slot": stale_slot,
    "the slot is not switched after a snapshot": slot_not_switched,
    "a snapshot is kept under one token fewer": off_by(-1),
    "a snapshot is kept under one token more": off_by(1),
    "a finished reply is kept under one token more": reply_counted_wrong,
    "a snapshot's partial page is written": partial_page_shared,
    "a partial page is not copied": partial_page_not_copied,
    "salts are ignored": salt_ignored,
    "a page is given back twice": page_returned_twice,
    "a page is never given back": page_never_returned,
    "a snapshot does not own its pages": snapshots_pages_not_owned,
    "penalties count anew after a preemption": counts_lost,
    "a snapshot is dropped that a step is about to read": evicted_before_it_is_read,
    "marks are one token early": marks_off_by(-1),
    "marks are one token late": marks_off_by(1),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_schedules_notice(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[fault](monkeypatch)
    quick = examples(200, 25, derandomize=True, database=None, phases=[Phase.generate])
    with pytest.raises((AssertionError, IndexError, ValueError, ExceptionGroup)):
        run_state_machine_as_test(Schedule, settings=quick)
