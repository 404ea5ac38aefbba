"""Byte-pair encoding of one piece (docs/frontend.md, section 6; Sennrich, Haddow and Birch, 2016).

Start from one token per byte. Again and again join the neighbouring pair whose merge has the lowest
rank, the leftmost of equals, until no neighbours have a merge. A heap of candidates over a linked list
does this in O(n log n), so a megabyte of one letter is no trap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Merge", "MergeStep", "Merges"]

# A pair of ids, and a candidate (rank, place), are each packed into one int: cheap to hash and compare.
SHIFT = 32
MASK = (1 << SHIFT) - 1


class Merge(NamedTuple):
    """One rule: `left` and `right` become `result`."""

    left: int
    right: int
    result: int


class MergeStep(NamedTuple):
    """One application of a rule, for `explain`: the rank of the rule, and all tokens after it."""

    rank: int
    merge: Merge
    tokens: tuple[int, ...]


class Merges:
    """The ranked rules and the ids of the 256 bytes."""

    def __init__(self, byte_ids: Sequence[int], merges: Iterable[tuple[int, int, int]]) -> None:
        """`byte_ids`: [256]; `merges`: (left, right, result) by rank. Of equal pairs the last counts."""
        self._byte_ids = tuple(byte_ids)
        self._ranks: dict[int, int] = {}
        self._results: list[int] = []
        for rank, (left, right, result) in enumerate(merges):
            self._ranks[left << SHIFT | right] = rank
            self._results.append(result)

    def __len__(self) -> int:
        return len(self._ranks)

    def rank(self, left: int, right: int) -> int | None:
        """The rank of the rule for a pair of ids, if there is one."""
        return self._ranks.get(left << SHIFT | right)

    def encode(self, piece: bytes, steps: list[MergeStep] | None = None) -> list[int]:
        """Ids of one piece, given as its bytes. `steps` collects every merge, in the order applied."""
        byte_ids = self._byte_ids
        tokens = [byte_ids[byte] for byte in piece]
        ranks, results = self._ranks, self._results
        candidates = [
            rank << SHIFT | place
            for place, (left, right) in enumerate(pairwise(tokens))
            if (rank := ranks.get(left << SHIFT | right)) is not None
        ]
        if not candidates:
            return tokens
        heapify(candidates)
        size = len(tokens)
        # A token absorbed by its left neighbour becomes -1; `following` skips it.
        following = list(range(1, size + 1))
        preceding = list(range(-1, size - 1))
        while candidates:
            candidate = heappop(candidates)
            rank, place = candidate >> SHIFT, candidate & MASK
            left, after = tokens[place], following[place]
            if left < 0 or after == size or ranks.get(left << SHIFT | tokens[after]) != rank:
                continue  # one of the two has been merged otherwise since
            merged = results[rank]
            right = tokens[after]
            tokens[place], tokens[after] = merged, -1
            beyond = following[place] = following[after]
            if beyond < size:
                preceding[beyond] = place
                found = ranks.get(merged << SHIFT | tokens[beyond])
                if found is not None:
                    heappush(candidates, found << SHIFT | place)
            before = preceding[place]
            if before >= 0:
                found = ranks.get(tokens[before] << SHIFT | merged)
                if found is not None:
                    heappush(candidates, found << SHIFT | before)
            if steps is not None:
                left_over = tuple(token for token in tokens if token >= 0)
                steps.append(MergeStep(rank, Merge(left, right, merged), left_over))
        return [token for token in tokens if token >= 0]
