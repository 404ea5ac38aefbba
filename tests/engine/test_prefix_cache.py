"""Prefixes are found by their tokens and salt alone, and go in the order in which they were last used."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.engine.pools import PagePool, SlotPool
from qanat.engine.prefix_cache import PrefixCache, Snapshot, prefix_keys

TOKENS = np.arange(40, dtype=np.int32)
IDS = st.lists(st.integers(0, 2**31 - 1), max_size=12)
SALTS = st.text(st.characters(codec=None), max_size=6)  # lone surrogates too


def keys(tokens: object, salt: str = "", lengths: list[int] | None = None) -> dict[int, bytes]:
    array = np.asarray(tokens, np.int32)
    return dict(prefix_keys(array, salt, range(len(array) + 1) if lengths is None else lengths))


@given(IDS, IDS, SALTS, SALTS)
def test_prefixes_have_one_key_if_and_only_if_tokens_and_salt_are_equal(
    a: list[int], b: list[int], salt: str, other: str
) -> None:
    for i, key in keys(a, salt).items():
        for j, there in keys(b, other).items():
            assert (key == there) == (a[:i] == b[:j] and salt == other)


@given(IDS, st.sets(st.integers(0, 14)))
def test_a_key_does_not_depend_on_the_other_lengths_asked_for(ids: list[int], lengths: set[int]) -> None:
    every = keys(ids)
    assert keys(ids, lengths=sorted(lengths)) == {n: every[n] for n in sorted(lengths) if n <= len(ids)}


def test_a_salt_is_not_taken_for_tokens() -> None:
    ids = np.array([65, 66], "<i4")
    assert keys(ids)[2] != keys([], ids.tobytes().decode())[0]
    assert keys([66], ids[:1].tobytes().decode())[1] != keys(ids)[2]
    assert keys([], "\ud800")[0] != keys([], "?")[0]


class Memory:
    """A cache whose snapshots each have a slot and pages of their own."""

    def __init__(self, most: int) -> None:
        self.slots, self.pages = SlotPool(8), PagePool(40, 4)
        self.cache = PrefixCache(self.slots, self.pages, most)

    def keep(self, length: int, salt: str = "") -> Snapshot | None:
        slot, pages = self.slots.take(), [self.pages.take() for _ in range(-(-length // 4))]
        snapshot = self.cache.keep(TOKENS[:length], salt, slot, pages)
        if snapshot is None:
            self.slots.give_back(slot)
        self.pages.give_back(pages)
        return snapshot

    def find(self, most: int = 40, salt: str = "") -> int:
        found = self.cache.find(TOKENS, salt, most)
        return 0 if found is None else found.length

    @property
    def lengths(self) -> list[int]:
        return [snapshot.length for snapshot in self.cache]


def test_the_longest_known_prefix_is_found() -> None:
    memory = Memory(4)
    for length in (9, 3, 20):
        memory.keep(length)
    memory.keep(12, "other")
    assert [memory.find(most) for most in (2, 3, 8, 9, 19, 20, 40)] == [0, 3, 3, 9, 9, 20, 20]
    assert memory.find(salt="other") == 12
    assert memory.find(salt="third") == 0
    assert memory.cache.find(TOKENS[1:], "", 40) is None


def test_the_longest_unused_goes_first() -> None:
    memory = Memory(3)
    for length in (3, 5, 7):
        memory.keep(length)
    assert memory.find(4) == 3  # used again
    assert memory.keep(7) is None  # known: used again, and nobody has to go
    assert memory.lengths == [5, 3, 7]
    memory.keep(9)
    assert memory.lengths == [3, 7, 9]
    assert memory.find(6) == 3


def test_what_a_step_is_about_to_read_stays() -> None:
    memory = Memory(2)
    first, second = memory.keep(3), memory.keep(5)
    assert first is not None
    assert second is not None
    first.readers = 1
    memory.keep(7)
    assert memory.lengths == [3, 7]
    next(s for s in memory.cache if s.length == 7).readers = 1
    assert memory.keep(9) is None
    assert not memory.cache.evict()
    first.readers = 0
    assert memory.cache.evict()
    assert memory.lengths == [7]


def test_slots_and_pages_come_back() -> None:
    memory = Memory(3)
    for length in (3, 5, 7, 9, 11):
        memory.keep(length)
    assert (memory.slots.free, memory.pages.free) == (5, 40 - 2 - 3 - 3)
    while memory.cache.evict():
        pass
    assert (memory.slots.free, memory.pages.free, memory.lengths) == (8, 40, [])
    assert memory.find() == 0


@pytest.mark.parametrize("length", [1, 8])
def test_a_cache_of_none_keeps_none(length: int) -> None:
    memory = Memory(0)
    assert memory.keep(length) is None
    assert memory.find() == 0
    assert (memory.slots.free, memory.pages.free) == (8, 40)
