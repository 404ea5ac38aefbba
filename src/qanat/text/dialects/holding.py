"""Holding text back: the start of a tag that may yet be completed, and blanks that may yet be dropped."""

from __future__ import annotations

__all__ = ["HeldBlanks", "held_length"]


def held_length(text: str, start: int, tag: str) -> int:
    """How many characters at the end of `text[start:]` are a beginning of `tag`, but not all of it."""
    at = text.find(tag[0], max(start, len(text) - len(tag) + 1))
    while at >= 0:
        if tag.startswith(text[at:]):
            return len(text) - at
        at = text.find(tag[0], at + 1)
    return 0


class HeldBlanks:
    """Lets text through but for the white space at its end, which waits for what follows."""

    def __init__(self) -> None:
        self._blanks: list[str] = []

    def let_through(self, text: str) -> str:
        """The text that can go on now: held white space, then `text` without that at its own end."""
        body = text.rstrip()
        if len(body) == len(text) and not self._blanks:
            return text
        if not body:
            if text:
                self._blanks.append(text)
            return ""
        ready = self.take() + body
        if len(body) < len(text):
            self._blanks.append(text[len(body) :])
        return ready

    def take(self) -> str:
        """The white space held, which is then no longer held."""
        blanks = "".join(self._blanks)
        self._blanks.clear()
        return blanks
