"""Slots and pages."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from qanat.engine.pools import PagePool, SlotPool


class PageOwners(RuleBasedStateMachine):
    """Owners reserve, take and leave in any order; no page is lost, shared or promised twice."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(11, 4)
        self.owners: list[tuple[list[int], int]] = []

    @rule(pages=st.integers(0, 6))
    def arrive(self, pages: int) -> None:
        fits = pages <= 11 - sum(len(own) + left for own, left in self.owners)
        assert self.pool.reserve(pages) == fits
        if fits:
            self.owners.append(([], pages))

    @precondition(lambda self: any(left for _, left in self.owners))
    @rule(data=st.data())
    def grow(self, data: st.DataObject) -> None:
        i = data.draw(st.sampled_from([i for i, (_, left) in enumerate(self.owners) if left]))
        own, left = self.owners[i]
        self.owners[i] = ([*own, self.pool.take()], left - 1)

    @precondition(lambda self: self.owners)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        own, left = self.owners.pop(data.draw(st.integers(0, len(self.owners) - 1)))
        self.pool.give_back(own, left)

    @invariant()
    def every_page_has_one_place(self) -> None:
        owned = [page for own, _ in self.owners for page in own]
        assert len(set(owned)) == len(owned)
        assert len(owned) + self.pool.free == 11
        assert self.pool.available == self.pool.free - sum(left for _, left in self.owners) >= 0


TestPageOwners = PageOwners.TestCase
TestPageOwners.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_pages_for_rounds_up() -> None:
    pool = PagePool(4, 64)
    assert [pool.pages_for(n) for n in (0, 1, 64, 65)] == [0, 1, 1, 2]


def test_returning_twice_is_caught() -> None:
    slots, pages = SlotPool(2), PagePool(2, 4)
    slot = slots.take()
    slots.give_back(slot)
    with pytest.raises(AssertionError):
        slots.give_back(slot)
    assert pages.reserve(1)
    page = pages.take()
    pages.give_back([page], 0)
    with pytest.raises(AssertionError):
        pages.give_back([page], 0)


def test_a_page_cannot_be_taken_without_a_reservation() -> None:
    with pytest.raises(AssertionError):
        PagePool(2, 4).take()
