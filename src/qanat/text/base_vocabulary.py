"""The base vocabulary as flat tables: no Python object for each of a quarter of a million tokens.

A start looks up a few dozen tokens, so a text is made when it is asked for.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence

__all__ = ["BaseVocabulary"]


class BaseVocabulary:
    """Token ids and their texts in byte-level letters."""

    def __init__(self, ids: Sequence[int], ends: Sequence[int], texts: bytes | memoryview) -> None:
        """From tables.

        Args:
            ids: [tokens], ascending, 32-bit.
            ends: [tokens], 32-bit: where each token's text ends in `texts`, and the next one's begins.
            texts: UTF-8, lone surrogates included.
        """
        self.ids = ids
        self.ends = ends
        self.texts = texts

    @classmethod
    def of(cls, vocab: Mapping[str, int]) -> BaseVocabulary:
        """From text -> id; every id once and below 2**31."""
        ordered = sorted(vocab.items(), key=lambda entry: entry[1])
        ends, texts = array("i"), bytearray()
        for text, _ in ordered:
            texts += text.encode("utf-8", "surrogatepass")
            ends.append(len(texts))
        return cls(array("i", (token for _, token in ordered)), ends, bytes(texts))

    def __len__(self) -> int:
        return len(self.ids)

    def text(self, token: int) -> str | None:
        """The text of an id, None if it has none."""
        place = bisect_left(self.ids, token)
        return self._text_at(place) if place < len(self.ids) and self.ids[place] == token else None

    def by_text(self) -> dict[str, int]:
        """Text -> id of all tokens, by id."""
        return {self._text_at(place): token for place, token in enumerate(self.ids)}

    def _text_at(self, place: int) -> str:
        start = self.ends[place - 1] if place else 0
        return str(self.texts[start : self.ends[place]], "utf-8", "surrogatepass")
