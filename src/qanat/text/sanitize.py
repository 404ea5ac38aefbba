"""Telling the template's control tokens from those a user typed.

Control tokens in the user's strings are wrapped in two private-use characters before rendering; in
the rendered prompt the wrapped ones become untrusted segments. (docs/frontend.md section 8.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from qanat.text.segments import Segment

__all__ = ["AddedTokenLike", "ControlTokens", "split_marked"]

_OPEN, _CLOSE = "\U000f0000", "\U000f0001"
_REMOVE_MARKS = str.maketrans("", "", _OPEN + _CLOSE)


class AddedTokenLike(Protocol):
    """What is asked of an added token: its text, and whether it is special."""

    @property
    def content(self) -> str:
        """The text that stands for the token."""

    @property
    def special(self) -> bool:
        """Whether it is left out of text decoded without special tokens."""


@dataclass(frozen=True)
class ControlTokens:
    """Patterns of the tokens to mark in user text, and of all that can come out marked."""

    control: re.Pattern[str]
    marked: re.Pattern[str]

    @classmethod
    def of_template(cls, literals: str, added_tokens: Iterable[AddedTokenLike]) -> ControlTokens:
        """Control tokens: the special ones, and others that the template's own text contains."""
        tokens = [token for token in added_tokens if token.content]
        control = [
            token.content
            for token in tokens
            if token.special or (token.content in literals and not token.content.isspace())
        ]
        every = _any_of(token.content for token in tokens)
        return cls(re.compile(_any_of(control)), re.compile(f"{_OPEN}({every}){_CLOSE}|[{_OPEN}{_CLOSE}]"))

    def mark(self, value: Any) -> Any:
        """Wrap control tokens in all strings of plain data, but for the keys of dictionaries.

        Marks that are already there go first, so that nobody can forge one.
        """
        if isinstance(value, str):
            return self.control.sub(
                lambda found: f"{_OPEN}{found[0]}{_CLOSE}", value.translate(_REMOVE_MARKS)
            )
        if isinstance(value, dict):
            return {key: self.mark(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.mark(item) for item in value]
        return value


def split_marked(prompt: str, control: ControlTokens) -> list[Segment]:
    """Segments of a prompt whose user strings were marked.

    A template's own string methods can tear a mark in two. A lone mark is dropped but still parts
    the text, so that what stood on its two sides cannot join into a control token.
    """
    segments: list[Segment] = []
    start = 0
    for found in control.marked.finditer(prompt):
        _append(segments, prompt[start : found.start()], trusted=True)
        _append(segments, found[1] or "", trusted=False)
        start = found.end()
    _append(segments, prompt[start:], trusted=True)
    return segments


def _append(segments: list[Segment], text: str, *, trusted: bool) -> None:
    if text or not segments:  # an empty first one tells that the next is not the prompt's beginning
        segments.append(Segment(text, trusted))


def _any_of(texts: Iterable[str]) -> str:
    """A pattern for any of the texts, longest first; with none, one that never matches."""
    return "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True)) or "(?!)"
