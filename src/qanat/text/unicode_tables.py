"""Reads the frozen Unicode facts of unicode_data.py into lookup tables.

Nothing here asks the interpreter's `unicodedata`: its version changes from one Python to the next, and
token ids must not (docs/frontend.md, sections 3 and 4).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from qanat.text import unicode_data

__all__ = [
    "WHITE_SPACE",
    "NormalizationTables",
    "RangeTable",
    "code_points",
    "is_word_character",
    "normalization_tables",
    "ranges",
]

# White_Space: what `\s` means to the splitter and to added tokens. Python's own str.isspace() adds 1C-1F.
WHITE_SPACE = frozenset(
    chr(code)
    for code in (
        *range(0x09, 0x0E),
        0x20,
        0x85,
        0xA0,
        0x1680,
        *range(0x2000, 0x200B),
        0x2028,
        0x2029,
        0x202F,
        0x205F,
        0x3000,
    )
)


def ranges(text: str) -> Iterator[tuple[int, int]]:
    """The (first, last) code points of a text such as `41-5A AA`, hexadecimal, both ends included."""
    for item in text.split():
        first, _, last = item.partition("-")
        yield int(first, 16), int(last or first, 16)


def code_points(text: str) -> set[int]:
    """All code points of a text such as `41-5A AA`."""
    return {code for first, last in ranges(text) for code in range(first, last + 1)}


class RangeTable:
    """Code point -> sign, kept as sorted ranges that do not overlap."""

    def __init__(self, *tables: tuple[str, str]) -> None:
        """`tables`: (ranges as in unicode_data.py, the sign of the characters in them)."""
        items = sorted((first, last, sign) for text, sign in tables for first, last in ranges(text))
        self._firsts = [first for first, _, _ in items]
        self._rest = [(last, sign) for _, last, sign in items]

    def find(self, code: int) -> str | None:
        """The sign of a code point, None outside all ranges. Takes the logarithm of their number."""
        place = bisect_right(self._firsts, code) - 1
        if place < 0:
            return None
        last, sign = self._rest[place]
        return sign if code <= last else None


@lru_cache(maxsize=1)
def _words() -> RangeTable:
    return RangeTable((unicode_data.WORDS, "w"))


def is_word_character(char: str) -> bool:
    """Whether `\\w` matches a character, which is what `single_word` added tokens look at."""
    return _words().find(ord(char)) is not None


@dataclass(frozen=True, slots=True)
class NormalizationTables:
    """Canonical combining classes, full decompositions and composing pairs of Unicode 9.0, without Hangul."""

    combining: dict[str, int]
    decompositions: dict[str, str]
    compositions: dict[tuple[str, str], str]


@lru_cache(maxsize=1)
def normalization_tables() -> NormalizationTables:
    """The tables of canonical normalisation, built once (about 3 ms)."""
    combining: dict[str, int] = {}
    for group in unicode_data.COMBINING.split(";"):
        value, _, codes = group.partition(":")
        combining.update((chr(code), int(value)) for code in code_points(codes))

    compositions: dict[tuple[str, str], str] = {}
    single: dict[str, str] = {}
    for table, composes in ((unicode_data.COMPOSED, True), (unicode_data.DECOMPOSED_ONLY, False)):
        for entry in table.split():
            whole, _, parts = entry.partition("=")
            composite = chr(int(whole, 16))
            pair = "".join(chr(int(part, 16)) for part in parts.split("+"))
            single[composite] = pair
            if composes:
                compositions[pair[0], pair[1]] = composite

    def expand(text: str) -> str:
        return "".join(expand(single[char]) if char in single else char for char in text)

    decompositions = {composite: expand(pair) for composite, pair in single.items()}
    return NormalizationTables(combining, decompositions, compositions)
