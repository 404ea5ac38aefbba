"""Finding stop texts in a text that arrives in pieces, whatever the cuts between the pieces."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["StopStrings"]


class StopStrings:
    """Watches one reply for any of several texts.

    The match is the one that starts earliest in the whole text; of two that start at the same place, the
    shorter. So the result depends on the text alone, never on how tokens cut it. Text that may still become a
    match is held back: always less than the longest stop text. A complete match waits while an earlier
    beginning is still open.
    """

    def __init__(self, stops: Sequence[str], *, include: bool = False) -> None:
        self._stops = tuple(dict.fromkeys(stops))
        self._include = include
        self._held = ""
        self.matched: str | None = None
        """The stop text that was found."""

    def feed(self, delta: str) -> str:
        """Take the next piece; returns the text that can be shown now. After a match nothing more comes."""
        if self.matched is not None:
            return ""
        if not self._stops:
            return delta
        self._held += delta
        start, stop = self._first_match()
        open_start = self._first_open()
        if stop is not None and start <= open_start:
            return self._finish(start, stop)
        shown = min(start, open_start)
        text, self._held = self._held[:shown], self._held[shown:]
        return text

    def flush(self) -> str:
        """The reply has ended: returns what was held back, cut at a match that was still waiting."""
        if self.matched is not None:
            return ""
        start, stop = self._first_match()
        if stop is not None:
            return self._finish(start, stop)
        text, self._held = self._held, ""
        return text

    def _finish(self, start: int, stop: str) -> str:
        self.matched = stop
        text, self._held = self._held[: start + len(stop) * self._include], ""
        return text

    def _first_match(self) -> tuple[int, str | None]:
        """Start of the earliest complete match and its text, or (length, None)."""
        found = [(at, len(stop), stop) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if not found:
            return len(self._held), None
        at, _, stop = min(found)
        return at, stop

    def _first_open(self) -> int:
        """Where the earliest beginning of a stop text lies that the held text ends inside of."""
        longest = max(map(len, self._stops))
        for at in range(max(0, len(self._held) - longest + 1), len(self._held)):
            tail = self._held[at:]
            if any(len(tail) < len(stop) and stop.startswith(tail) for stop in self._stops):
                return at
        return len(self._held)
