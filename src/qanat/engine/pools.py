"""State slots and key/value pages: how many own each, and that all come back."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["PagePool", "SlotPool"]


class SlotPool:
    """The slots of recurrent state. A running sequence owns one, and so does a snapshot."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count - 1, -1, -1))  # the lowest on top: memory touched once is used again

    @property
    def free(self) -> int:
        """How many slots nobody owns."""
        return len(self._free)

    def take(self) -> int:
        """Own a slot. Whoever calls has looked at `free` first."""
        return self._free.pop()

    def give_back(self, slot: int) -> None:
        """Return a slot; the next owner writes it before it reads it, so nothing has to be cleared."""
        assert slot not in self._free, f"slot {slot} was returned twice"
        self._free.append(slot)


class PagePool:
    """Pages of keys and values. Several may own a page: a sequence and the snapshots of its prefixes."""

    def __init__(self, count: int, page: int) -> None:
        self.count = count
        self.page = page
        self._free = list(range(count - 1, -1, -1))
        self._owners = [0] * count

    @property
    def free(self) -> int:
        """How many pages nobody owns."""
        return len(self._free)

    def owners(self, page: int) -> int:
        """How many own a page."""
        return self._owners[page]

    def pages_for(self, tokens: int) -> int:
        """Pages that hold so many tokens."""
        return -(-tokens // self.page)

    def take(self) -> int:
        """Own a page alone. Whoever calls has looked at `free` first."""
        page = self._free.pop()
        self._owners[page] = 1
        return page

    def share(self, pages: Iterable[int]) -> None:
        """Become one more owner of pages that somebody owns."""
        for page in pages:
            assert self._owners[page] > 0, f"page {page} is free and cannot be shared"
            self._owners[page] += 1

    def give_back(self, pages: Iterable[int]) -> None:
        """Own pages no longer; they are free when nobody does."""
        for page in pages:
            assert self._owners[page] > 0, f"page {page} was returned twice"
            self._owners[page] -= 1
            if not self._owners[page]:
                self._free.append(page)
