"""Slots and pages."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from qanat.engine.pools import PagePool, SlotPool


class PageOwners(RuleBasedStateMachine):
    """Owners take, share and leave in any order; a page is free exactly when nobody owns it."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(11, 4)
        self.owners: list[list[int]] = []

    @precondition(lambda self: self.pool.free)
    @rule(count=st.integers(1, 6))
    def arrive(self, count: int) -> None:
        self.owners.append([self.pool.take() for _ in range(min(count, self.pool.free))])

    @precondition(lambda self: self.owners)
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        own = data.draw(st.sampled_from(self.owners))
        part = own[: data.draw(st.integers(0, len(own)))]
        self.pool.share(part)
        self.owners.append(list(part))

    @precondition(lambda self: self.owners)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.pool.give_back(self.owners.pop(data.draw(st.integers(0, len(self.owners) - 1))))

    @invariant()
    def every_page_is_counted(self) -> None:
        for page in range(11):
            assert self.pool.owners(page) == sum(page in own for own in self.owners)
        assert self.pool.free == 11 - len({page for own in self.owners for page in own})


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
    page = pages.take()
    pages.give_back([page])
    with pytest.raises(AssertionError):
        pages.give_back([page])


def test_a_free_page_cannot_be_shared() -> None:
    with pytest.raises(AssertionError, match="free"):
        PagePool(2, 4).share([0])
