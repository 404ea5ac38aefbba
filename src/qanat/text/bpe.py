"""Byte-pair encoding of one piece (docs/frontend.md, section 6; Sennrich, Haddow and Birch, 2016).

Start from one token per byte. Again and again join the neighbouring pair whose merge has the lowest
rank, the leftmost of equals, until no neighbours have a merge. Short pieces, nearly all there are, are
scanned for the best pair each time. Long ones keep their candidates in order over a linked list, so that
time grows with the length (times its logarithm at worst) and a megabyte of one letter is no trap.

A quarter of a million rules are kept as flat tables. Only those whose left token occurs become a dictionary:
most never do, and making all of them would be a third of a second of every start.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Merge", "MergeStep", "MergeTables", "Merges"]

SHORT = 40  # bytes up to which scanning is the quicker way
NEVER = 1 << 62  # the rank of a pair without a merge


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


class MergeTables(NamedTuple):
    """All rules in columns [rules] of 32-bit numbers; the first three ordered by left token, then by rank."""

    lefts: Sequence[int]
    rights: Sequence[int]
    ranks: Sequence[int]
    results: Sequence[int]  # by rank

    @classmethod
    def of(cls, merges: Iterable[tuple[int, int, int]]) -> MergeTables:
        """From (left, right, result) by rank, all below 2**31."""
        lefts, rights, results = array("i"), array("i"), array("i")
        for left, right, result in merges:
            lefts.append(left)
            rights.append(right)
            results.append(result)
        ranks = sorted(range(len(lefts)), key=lefts.__getitem__)
        lefts, rights = (array("i", (column[rank] for rank in ranks)) for column in (lefts, rights))
        return cls(lefts, rights, array("i", ranks), results)


class _RulesByLeft(dict[int, dict[int, int]]):
    """Left token -> right token -> rank. Of equal pairs the last counts."""

    def __init__(self, tables: MergeTables) -> None:
        self._tables = tables

    def __missing__(self, left: int) -> dict[int, int]:
        lefts, rights, ranks, _ = self._tables
        first = bisect_left(lefts, left)
        last = bisect_right(lefts, left, first)
        rules = self[left] = dict(zip(rights[first:last], ranks[first:last], strict=True))
        return rules


class Merges:
    """The ranked rules and the ids of the 256 bytes. Safe to use from several threads."""

    def __init__(self, byte_ids: Sequence[int], tables: MergeTables) -> None:
        """`byte_ids`: [256]."""
        self.byte_ids = tuple(byte_ids)
        self.tables = tables
        self._rules = _RulesByLeft(tables)
        self._results = tables.results

    def __len__(self) -> int:
        return len(self._results)

    def rank(self, left: int, right: int) -> int | None:
        """The rank of the rule for a pair of ids, if there is one."""
        return self._rules[left].get(right)

    def encode(self, piece: bytes, steps: list[MergeStep] | None = None) -> list[int]:
        """Ids of one piece, given as its bytes. `steps` collects every merge, in the order applied."""
        byte_ids = self.byte_ids
        tokens = [byte_ids[byte] for byte in piece]
        if len(tokens) <= SHORT:
            return self._merge_by_scanning(tokens, steps)
        return self._merge_in_order(tokens, steps)

    def _merge_by_scanning(self, tokens: list[int], steps: list[MergeStep] | None) -> list[int]:
        rules, results = self._rules, self._results
        pairs = [rules[left].get(right, NEVER) for left, right in pairwise(tokens)]
        while pairs and (rank := min(pairs)) != NEVER:
            place = pairs.index(rank)
            merge = Merge(tokens[place], tokens[place + 1], results[rank]) if steps is not None else None
            merged = tokens[place] = results[rank]
            del tokens[place + 1], pairs[place]
            if place > 0:
                pairs[place - 1] = rules[tokens[place - 1]].get(merged, NEVER)
            if place < len(pairs):
                pairs[place] = rules[merged].get(tokens[place + 1], NEVER)
            if steps is not None and merge is not None:
                steps.append(MergeStep(rank, merge, tuple(tokens)))
        return tokens

    def _merge_in_order(self, tokens: list[int], steps: list[MergeStep] | None) -> list[int]:
        rules, results = self._rules, self._results
        candidates = _Candidates()
        for place, (left, right) in enumerate(pairwise(tokens)):
            rank = rules[left].get(right)
            if rank is not None:
                candidates.add(rank, place)
        size = len(tokens)
        # A token absorbed by its left neighbour becomes -1; `following` skips it.
        following = list(range(1, size + 1))
        preceding = list(range(-1, size - 1))
        while candidate := candidates.pop():
            rank, place = candidate
            left, after = tokens[place], following[place]
            if left < 0 or after == size or rules[left].get(tokens[after]) != rank:
                continue  # one of the two has been merged otherwise since
            merge = Merge(left, tokens[after], results[rank]) if steps is not None else None
            merged = tokens[place] = results[rank]
            tokens[after] = -1
            beyond = following[place] = following[after]
            if beyond < size:
                preceding[beyond] = place
                found = rules[merged].get(tokens[beyond])
                if found is not None:
                    candidates.add(found, place)
            before = preceding[place]
            if before >= 0:
                found = rules[tokens[before]].get(merged)
                if found is not None:
                    candidates.add(found, before)
            if steps is not None and merge is not None:
                steps.append(MergeStep(rank, merge, tuple(token for token in tokens if token >= 0)))
        return [token for token in tokens if token >= 0]


class _Candidates:
    """Places where a merge may apply; the lowest rank comes first, and of one rank the leftmost place.

    The places of a rank nearly all arrive before the first of them is taken, and in order: a list that is
    sorted once serves them. Those that arrive later wait in a heap beside it.
    """

    __slots__ = ("_late", "_ranks", "_waiting")

    def __init__(self) -> None:
        self._ranks: list[int] = []  # a heap
        self._waiting: dict[int, list[int]] = {}  # rank -> places; once sorted, the leftmost is the last
        self._late: dict[int, list[int]] = {}  # rank -> a heap of places, for ranks that have been sorted

    def add(self, rank: int, place: int) -> None:
        if rank in self._late:
            heappush(self._late[rank], place)
        elif rank in self._waiting:
            self._waiting[rank].append(place)
        else:
            self._waiting[rank] = [place]
            heappush(self._ranks, rank)

    def pop(self) -> tuple[int, int] | None:
        """The next (rank, place), None when there is none."""
        while self._ranks:
            rank = self._ranks[0]
            waiting = self._waiting[rank]
            late = self._late.get(rank)
            if late is None:
                waiting.sort(reverse=True)
                late = self._late[rank] = []
            if late and (not waiting or late[0] < waiting[-1]):
                return rank, heappop(late)
            if waiting:
                return rank, waiting.pop()
            heappop(self._ranks)
            del self._waiting[rank], self._late[rank]
        return None
