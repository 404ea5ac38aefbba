"""Cuts text into the pieces inside which byte-pair encoding works (docs/frontend.md, section 4).

The published files give the rule as a regular expression. Two are in use in the Qwen family, and both
are scanned here by hand in one pass; any other pattern is refused, never approximated.
"""

from __future__ import annotations

from qanat.errors import TokenizerError
from qanat.text import unicode_data
from qanat.text.unicode_tables import WHITE_SPACE, RangeTable

__all__ = ["QWEN2_PATTERN", "QWEN3_5_PATTERN", "Splitter"]

QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN3_5_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# One sign per character: what the scanner sees of the text.
WORD = "w"  # a letter; in Qwen3.5's pattern a mark too
NUMBER = "n"
NEWLINE = "r"  # CR or LF
BLANK = "s"  # any other white space, but U+0020
SPACE = " "  # U+0020, which may lead a run of signs
APOSTROPHE = "'"  # U+0027, which may begin a contraction
OTHER = "o"
END = "."  # stands after the last character, so that no loop needs to test for the end

LEADS_WORD = frozenset((BLANK, SPACE, APOSTROPHE, OTHER))
IS_SIGN = frozenset((APOSTROPHE, OTHER))
IS_SPACE = frozenset((NEWLINE, BLANK, SPACE))

# Contractions are matched whatever the case; U+017F (long s) is another case of s.
SHORT_CONTRACTIONS = frozenset("sStTmMdD\u017f")
LONG_CONTRACTIONS = frozenset(
    first + second for pair in ("re", "ve", "ll") for first in (pair[0], pair[0].upper())
    for second in (pair[1], pair[1].upper())
)  # fmt: skip


# Signs of code points below are remembered once looked up; above, nothing but rare marks is ever a word.
REMEMBERED = 0x40000


class _Signs(dict[int, str]):
    """Code point -> sign, for `str.translate`."""

    def __init__(self, marks_are_words: bool) -> None:
        tables = [(unicode_data.LETTERS, WORD), (unicode_data.NUMBERS, NUMBER)]
        if marks_are_words:
            tables.append((unicode_data.MARKS, WORD))
        self._table = RangeTable(*tables)
        self.update((ord(char), BLANK) for char in WHITE_SPACE)
        for char, sign in (("\r", NEWLINE), ("\n", NEWLINE), (" ", SPACE), ("'", APOSTROPHE)):
            self[ord(char)] = sign

    def __missing__(self, code: int) -> str:
        sign = self._table.find(code) or OTHER
        if code < REMEMBERED:
            self[code] = sign
        return sign


class Splitter:
    """Splits normalised text by one of the two patterns; the pieces joined are the text."""

    def __init__(self, pattern: str) -> None:
        """`pattern`: the regular expression as tokenizer.json gives it. TokenizerError if it is another."""
        if pattern not in (QWEN2_PATTERN, QWEN3_5_PATTERN):
            raise TokenizerError(
                f"tokenizer.json: pre_tokenizer.pattern: the splitting pattern {pattern!r} is not one of the "
                "two of the Qwen family; use a Qwen2 to Qwen3.8 tokenizer"
            )
        self.pattern = pattern
        self._signs = _Signs(marks_are_words=pattern == QWEN3_5_PATTERN)

    def split(self, text: str) -> list[str]:
        """The pieces of `text`, in order. Linear time."""
        ends = self.piece_ends(text)
        return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def piece_ends(self, text: str) -> list[int]:
        """The index just after each piece."""
        signs = text.translate(self._signs) + END
        ends: list[int] = []
        place, stop = 0, len(text)
        while place < stop:
            sign = signs[place]
            after = place + 1
            if sign == APOSTROPHE and (size := _contraction(text, place)):
                place += size
            elif sign == WORD or (signs[after] == WORD and sign in LEADS_WORD):
                while signs[after] == WORD:
                    after += 1
                place = after
            elif sign == NUMBER:
                place = after
            elif sign in IS_SIGN or (sign == SPACE and signs[after] in IS_SIGN):
                while signs[after] in IS_SIGN:
                    after += 1
                while signs[after] == NEWLINE:
                    after += 1
                place = after
            else:
                place = _space_end(signs, place, stop)
            ends.append(place)
        return ends


def _contraction(text: str, place: int) -> int:
    """Length of the English contraction that starts at the apostrophe at `place`, or 0."""
    if text[place + 1 : place + 2] in SHORT_CONTRACTIONS:
        return 2
    return 3 if text[place + 1 : place + 3] in LONG_CONTRACTIONS else 0


def _space_end(signs: str, place: int, stop: int) -> int:
    """Where a piece of white space ends that starts at `place`.

    With a newline in the run, after the last of them. Else one blank is left for the next word, unless
    the text ends here or it is the only one.
    """
    after = place
    newline = -1
    while signs[after] in IS_SPACE:
        if signs[after] == NEWLINE:
            newline = after
        after += 1
    if newline >= 0:
        return newline + 1
    if after == stop or after == place + 1:
        return after
    return after - 1
