"""Finds added tokens (`<|im_end|>`, `<think>`) in text (docs/frontend.md, section 2).

They are cut out before anything else looks at the text, and have rules of their own: the leftmost match
wins, of several at one place the longest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from qanat.text.unicode_tables import WHITE_SPACE, is_word_character

__all__ = ["AddedToken", "AddedTokenFinder", "Stretch"]


@dataclass(frozen=True, slots=True)
class AddedToken:
    """One added token and how it is matched.

    `special`: left out by `decode(skip_special_tokens=True)`, not matched under `split_special_tokens`.
    `single_word`: matched only where no word character touches it. `lstrip`, `rstrip`: swallows the white
    space before, after it. `normalized`: sought in the normalised text instead of the raw one.
    """

    id: int
    content: str
    special: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False


class Stretch(NamedTuple):
    """`text[start:end]`: an added token (with the white space it swallowed), or plain text (None)."""

    token: AddedToken | None
    start: int
    end: int


class _Node:
    """A state of the trie: where each next character leads, and the token that ends here."""

    __slots__ = ("children", "token")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.token: AddedToken | None = None


class AddedTokenFinder:
    """A trie over the spellings of some added tokens."""

    def __init__(self, spellings: Iterable[tuple[str, AddedToken]]) -> None:
        """`spellings`: (text to seek, token); of equal texts the first counts, empty ones are ignored."""
        self._root = _Node()
        for text, token in spellings:
            if not text:
                continue
            node = self._root
            for char in text:
                node = node.children.setdefault(char, _Node())
            node.token = node.token or token
        first = "".join(map(re.escape, self._root.children))
        self._first_character = re.compile(f"[{first}]") if first else None

    def split(self, text: str, *, skip_special: bool = False) -> list[Stretch]:
        """Cut `text` at its added tokens. Every character is in a stretch, and none is empty.

        `skip_special` leaves special tokens as plain text. A match that `skip_special` or `single_word`
        rejects still hides what overlaps it: the search goes on after its end.
        """
        stretches: list[Stretch] = []
        done = 0
        for token, start, end in self._matches(text):
            if skip_special and token.special:
                continue
            if token.single_word and (_is_word(text, start - 1) or _is_word(text, end)):
                continue
            if token.lstrip:
                while start > 0 and text[start - 1] in WHITE_SPACE:
                    start -= 1
                start = max(start, done)
            if token.rstrip:
                while end < len(text) and text[end] in WHITE_SPACE:
                    end += 1
            if done < start:
                stretches.append(Stretch(None, done, start))
            stretches.append(Stretch(token, start, end))
            done = end
        if done < len(text):
            stretches.append(Stretch(None, done, len(text)))
        return stretches

    def _matches(self, text: str) -> Iterator[tuple[AddedToken, int, int]]:
        if self._first_character is None:
            return
        place = 0
        while found := self._first_character.search(text, place):
            start = found.start()
            token, end = self._longest_at(text, start)
            if token is None:
                place = start + 1
            else:
                yield token, start, end
                place = end

    def _longest_at(self, text: str, start: int) -> tuple[AddedToken | None, int]:
        node, token, end = self._root, None, start
        for place in range(start, len(text)):
            following = node.children.get(text[place])
            if following is None:
                break
            node = following
            if node.token is not None:
                token, end = node.token, place + 1
        return token, end


def _is_word(text: str, place: int) -> bool:
    return 0 <= place < len(text) and is_word_character(text[place])
