"""State slots and key/value pages: who owns which, and that all come back."""

from __future__ import annotations

__all__ = ["PagePool", "SlotPool"]


class SlotPool:
    """The slots of recurrent state. A sequence owns one from its first step to its last."""

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
        """Return a slot; the next owner starts from FRESH, so nothing has to be cleared."""
        assert slot not in self._free, f"slot {slot} was returned twice"
        self._free.append(slot)


class PagePool:
    """Pages of keys and values. A sequence first reserves the most it can need, then takes page by page.

    The reservation makes admission the only place where memory can be short: a sequence that runs never
    has to be stopped for want of a page.
    """

    def __init__(self, count: int, page: int) -> None:
        self.count = count
        self.page = page
        self._free = list(range(count - 1, -1, -1))
        self._reserved = 0  # promised, not taken yet

    @property
    def free(self) -> int:
        """How many pages nobody owns."""
        return len(self._free)

    @property
    def available(self) -> int:
        """How many pages are neither owned nor promised."""
        return len(self._free) - self._reserved

    def pages_for(self, tokens: int) -> int:
        """Pages that hold so many tokens."""
        return -(-tokens // self.page)

    def reserve(self, pages: int) -> bool:
        """Promise pages to a sequence; False when too few are left."""
        if pages > self.available:
            return False
        self._reserved += pages
        return True

    def take(self) -> int:
        """Own one of the pages promised earlier."""
        assert self._reserved > 0, "a page was taken without a reservation"
        self._reserved -= 1
        return self._free.pop()

    def give_back(self, pages: list[int], reserved: int) -> None:
        """Return owned pages, and what is left of the promise."""
        assert not set(pages) & set(self._free), f"pages {pages} were returned twice"
        assert 0 <= reserved <= self._reserved, "more was released than reserved"
        self._reserved -= reserved
        self._free.extend(reversed(pages))
