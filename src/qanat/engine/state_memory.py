"""Who owns which part of the state: running sequences, and snapshots of what they have read.

A sequence reads recurrent state from its `source` (nothing, a snapshot's slot, its own slot) and writes it
to its own slot. So a snapshot costs no copy: it takes over the slot that was written last, and the sequence
goes on from there into a new one. Pages of keys and values are shared. Only behind the tokens that it has
computed does a sequence write, and a page that a snapshot ends in is copied for whoever resumes from it: no
page changes under another owner's tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qanat.engine.pools import PagePool, SlotPool
from qanat.engine.prefix_cache import PrefixCache, Snapshot
from qanat.engine.sequence import Sequence as Running
from qanat.model.batch import FRESH

__all__ = ["StateMemory"]


class StateMemory:
    """Slots, pages and snapshots of one engine.

    Args:
        running: the most sequences at once.
        snapshots: the most snapshots at once.
        pages, page: how many pages there are, of how many tokens.
        copy_pages: copies pages of keys and values, (sources, targets).
    """

    def __init__(
        self,
        *,
        running: int,
        snapshots: int,
        pages: int,
        page: int,
        copy_pages: Callable[[Sequence[int], Sequence[int]], None],
    ) -> None:
        self.slots = SlotPool(running + snapshots)
        self.pages = PagePool(pages, page)
        self.cache = PrefixCache(self.slots, self.pages, snapshots)
        self._copy_pages = copy_pages

    def admit(self, s: Running, spare: int) -> bool:
        """Give a sequence its slot and the pages of all tokens that are known, and leave `spare` pages.

        It begins behind the longest prefix of which there is a snapshot. False, and nothing is changed but
        that snapshots may be gone, when there is no room.
        """
        found = None if s.reads_all else self.cache.find(s.tokens, s.salt, s.length - 1)
        return (found is not None and self._begin(s, found, spare)) or self._begin(s, None, spare)

    def _begin(self, s: Running, snapshot: Snapshot | None, spare: int) -> bool:
        length = snapshot.length if snapshot else 0
        shared = list(snapshot.pages[: length // self.pages.page]) if snapshot else []
        need = self.pages.pages_for(min(s.length + 1, s.total)) - len(shared)
        if snapshot:
            snapshot.readers += 1
        if not self._make_room(need + spare):
            if snapshot:
                snapshot.readers -= 1
            return False
        self.pages.share(shared)
        s.pages = shared + [self.pages.take() for _ in range(need)]
        s.slot, s.computed = self.slots.take(), length
        s.source = FRESH
        if snapshot:
            s.source, s.resumed_from = snapshot.slot, snapshot
            if length % self.pages.page:
                self._copy_pages([snapshot.pages[len(shared)]], [s.pages[len(shared)]])
        if s.cached is None:
            s.cached = length
        return True

    def grow(self, s: Running, tokens: int) -> bool:
        """Pages for so many tokens in all; False, and nothing is changed, when there is no room."""
        need = self.pages.pages_for(tokens) - len(s.pages)
        if need > 0:
            if not self._make_room(need):
                return False
            s.pages += [self.pages.take() for _ in range(need)]
        return True

    def _make_room(self, pages: int) -> bool:
        """Drop snapshots, the longest unused first, until so many pages are free."""
        while self.pages.free < pages:
            if not self.cache.evict():
                return False
        return True

    def computed(self, s: Running) -> None:
        """A step has written the sequence's slot. Where a snapshot is wanted, it takes the slot over."""
        self._unpin(s)
        s.source = s.slot
        if s.computed in s.marks:
            self._snapshot(s)

    def _snapshot(self, s: Running) -> None:
        assert s.slot is not None
        snapshot = self.cache.keep(s.tokens[: s.computed], s.salt, s.slot, self._held(s))
        if snapshot is None:
            return
        snapshot.readers += 1
        s.source, s.resumed_from = snapshot.slot, snapshot
        s.slot = self.slots.take()

    def _held(self, s: Running) -> list[int]:
        """The pages that hold the tokens computed so far."""
        return s.pages[: self.pages.pages_for(s.computed)]

    def release(self, s: Running, *, keep: bool) -> None:
        """Take back what a sequence owns. keep: what it has computed becomes a snapshot first."""
        self._unpin(s)
        assert s.slot is not None
        kept = None
        if keep and s.source == s.slot and s.computed and self.cache.most:
            kept = self.cache.keep(s.tokens[: s.computed], s.salt, s.slot, self._held(s))
        if kept is None:
            self.slots.give_back(s.slot)
        self.pages.give_back(s.pages)
        s.slot, s.source, s.pages, s.computed = None, None, [], 0

    def _unpin(self, s: Running) -> None:
        if s.resumed_from is not None:
            s.resumed_from.readers -= 1
            s.resumed_from = None

    def check_integrity(self, running: Sequence[Running]) -> None:
        """Assert that each slot and page is free, or owned by exactly those who say so."""
        slots = [s.slot for s in running] + [snapshot.slot for snapshot in self.cache]
        assert len(set(slots)) == len(slots), "two own one slot"
        assert len(slots) + self.slots.free == self.slots.count, "a slot is lost"
        owners = [0] * self.pages.count
        for held in [*(s.pages for s in running), *(snapshot.pages for snapshot in self.cache)]:
            assert len(set(held)) == len(held), "a page stands twice in one table"
            for page in held:
                owners[page] += 1
        assert owners == [self.pages.owners(page) for page in range(self.pages.count)], "a page is miscounted"
        assert owners.count(0) == self.pages.free, "a page is lost"
        readers = [s.resumed_from for s in running if s.resumed_from is not None]
        kept = list(self.cache)
        assert all(snapshot in kept for snapshot in readers), "a snapshot was dropped before it was read"
        for snapshot in kept:
            assert snapshot.readers == readers.count(snapshot), "a snapshot's readers are miscounted"
            assert len(snapshot.pages) == self.pages.pages_for(snapshot.length)
        for s in running:
            assert s.computed <= len(s.pages) * self.pages.page
            lent = s.resumed_from.slot if s.resumed_from is not None else s.slot
            assert s.source in (FRESH, lent), "a sequence is about to read somebody else's slot"
            assert (s.source == FRESH) == (s.computed == 0), "only what starts from nothing reads nothing"
        assert len(self.cache) <= self.cache.most
