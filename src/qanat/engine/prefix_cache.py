"""Snapshots of what sequences remember, found again by the tokens that led to them.

Recurrent state cannot be cut back to an earlier token, so a prefix is of use only where a snapshot was taken
at its very end: a slot of recurrent state together with the pages of keys and values up to there. A snapshot
never changes. It is found by a hash of its token ids, chained from the caller's salt, so that callers with
different salts never see (or time) what others have asked. The longest unused one goes first.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qanat.engine.pools import PagePool, SlotPool

__all__ = ["PrefixCache", "Snapshot", "prefix_keys"]

KEY_BYTES = 16


@dataclass(eq=False)
class Snapshot:
    """The state after `length` tokens. Its pages may be shared with sequences and other snapshots.

    The last page is partial unless `length` is a multiple of the page: what lies behind `length` in it
    belongs to the sequence that went on writing there, and means nothing here.
    """

    key: bytes
    length: int
    slot: int
    pages: tuple[int, ...]
    readers: int = 0
    """Sequences whose next step reads it: until then it must stay."""


def prefix_keys(tokens: NDArray[np.int32], salt: str, lengths: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """(length, key) of the prefixes of these lengths, which ascend; none longer than `tokens`."""
    digest = hashlib.blake2b(salt.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES)
    digest = hashlib.blake2b(digest.digest(), digest_size=KEY_BYTES)  # a salt is never taken for tokens
    done = 0
    for length in lengths:
        if length > len(tokens):
            return
        digest.update(np.ascontiguousarray(tokens[done:length], "<i4").data)
        done = length
        yield length, digest.copy().digest()


class PrefixCache:
    """All snapshots, owning their slots and pages.

    Args:
        slots, pages: the pools, shared with the running sequences.
        most: the most snapshots at once; 0 keeps none.
    """

    def __init__(self, slots: SlotPool, pages: PagePool, most: int) -> None:
        self.most = most
        self._slots = slots
        self._pages = pages
        self._by_key: dict[bytes, Snapshot] = {}  # the longest unused first
        self._lengths: Counter[int] = Counter()

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, tokens: NDArray[np.int32], salt: str, most: int) -> Snapshot | None:
        """The longest snapshot of a prefix of `tokens` with at most `most` tokens; it counts as used now."""
        lengths = sorted(length for length in self._lengths if length <= most)
        found = None
        for _, key in prefix_keys(tokens, salt, lengths):
            found = self._by_key.get(key, found)
        if found is not None:
            self._use(found)
        return found

    def keep(self, tokens: NDArray[np.int32], salt: str, slot: int, pages: list[int]) -> Snapshot | None:
        """Take over `slot`, which holds the state after `tokens`, and become an owner of `pages`.

        None, and nothing is taken over, when the prefix is known already or no snapshot can make room.
        """
        ((length, key),) = prefix_keys(tokens, salt, [len(tokens)])
        known = self._by_key.get(key)
        if known is not None:
            self._use(known)
            return None
        if len(self) >= self.most and not self.evict():
            return None
        snapshot = Snapshot(key, length, slot, tuple(pages))
        self._pages.share(pages)
        self._by_key[key] = snapshot
        self._lengths[length] += 1
        return snapshot

    def evict(self) -> bool:
        """Drop the longest unused snapshot that no step is about to read; False if there is none."""
        victim = next((s for s in self if not s.readers), None)
        if victim is None:
            return False
        del self._by_key[victim.key]
        self._lengths[victim.length] -= 1
        if not self._lengths[victim.length]:
            del self._lengths[victim.length]
        self._slots.give_back(victim.slot)
        self._pages.give_back(victim.pages)
        return True

    def _use(self, snapshot: Snapshot) -> None:
        del self._by_key[snapshot.key]
        self._by_key[snapshot.key] = snapshot
