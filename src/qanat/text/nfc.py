"""Unicode normalisation form C with the tables of Unicode 9.0 (docs/frontend.md, section 3).

Almost all text is in form C already. A regular expression finds the few characters that could change
something; only they, each with the one stable character before them, are taken through the algorithm
of Unicode Standard Annex #15: decompose, order the marks, compose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from qanat.text.unicode_tables import NormalizationTables, normalization_tables

__all__ = ["Alignment", "normalize", "normalize_aligned"]

# Hangul syllables are composed by arithmetic (Unicode Standard, section 3.12).
S_BASE, L_BASE, V_BASE, T_BASE = 0xAC00, 0x1100, 0x1161, 0x11A7
L_COUNT, V_COUNT, T_COUNT = 19, 21, 28
S_COUNT = L_COUNT * V_COUNT * T_COUNT

# A character on its way, and how many characters of the input it adds: 1 for a further part of a
# decomposition, 0 for one that stands for one, -n for one that swallowed n others.
Change = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Where each character of the normalised text comes from: `starts[i]`, `ends[i]` in the input."""

    starts: list[int]
    ends: list[int]


def normalize(text: str) -> str:
    """`text` in form C; characters assigned after Unicode 9.0 never combine, reorder or decompose."""
    if text.isascii():
        return text
    return _unstable_chunks().sub(lambda found: "".join(char for char, _ in _compose(found[0])), text)


def normalize_aligned(text: str) -> tuple[str, Alignment]:
    """`text` in form C, and the place of each of its characters in `text`.

    The alignment is the one Hugging Face's offsets show: a composed character points at the base
    character alone, and the further parts of a decomposed one at the character it came from.
    """
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    done = 0

    def keep(stop: int) -> None:
        pieces.append(text[done:stop])
        starts.extend(range(done, stop))
        ends.extend(range(done + 1, stop + 1))

    for found in _unstable_chunks().finditer(text):
        keep(found.start())
        place = found.start()
        for char, change in _compose(found[0]):
            pieces.append(char)
            origin = place if change <= 0 else place - 1
            starts.append(max(origin, 0))
            ends.append(origin + 1)
            if change <= 0:
                place += 1 - change
        done = found.end()
    keep(len(text))
    return "".join(pieces), Alignment(starts, ends)


@lru_cache(maxsize=1)
def _unstable_chunks() -> re.Pattern[str]:
    """Matches a run of characters that may change, with the stable character before it.

    Stable characters start anew: combining class 0, unchanged alone, never the second of a pair. So what
    lies between two chunks is in form C, and no chunk touches the next.
    """
    tables = normalization_tables()
    unstable = set(tables.combining)
    unstable.update(second for _, second in tables.compositions)
    # What composition does not rebuild; a composite that begins with an unstable character is also unsafe.
    unstable.update(
        char
        for char, parts in tables.decompositions.items()
        if parts[0] in unstable or "".join(c for c, _ in _compose(char)) != char
    )
    unstable.update(chr(code) for code in range(V_BASE, V_BASE + V_COUNT))
    unstable.update(chr(code) for code in range(T_BASE + 1, T_BASE + T_COUNT))
    return re.compile(f"(?s:.?)[{''.join(sorted(unstable))}]+")


def _compose(chunk: str) -> list[Change]:
    """Annex #15 on a few characters: the result, with how each character changed the length."""
    tables = normalization_tables()
    parts = _in_canonical_order(_decompose(chunk, tables), tables)
    combining, pairs = tables.combining, tables.compositions
    result: list[Change] = []
    starter = -1  # index in `result` of the last character of class 0
    last_class = -1  # class of the last character kept after the starter; -1: none
    for char, change in parts:
        char_class = combining.get(char, 0)
        if starter >= 0 and last_class < char_class:
            base, base_change = result[starter]
            composite = pairs.get((base, char)) or _compose_hangul(base, char)
            if composite:
                result[starter] = (composite, base_change + change - 1)
                continue
        if char_class == 0:
            starter, last_class = len(result), -1
        else:
            last_class = char_class
        result.append((char, change))
    return result


def _decompose(chunk: str, tables: NormalizationTables) -> list[Change]:
    decompositions = tables.decompositions
    parts: list[Change] = []
    for char in chunk:
        full = decompositions.get(char) or _decompose_hangul(char)
        if full:
            parts.append((full[0], 0))
            parts.extend((part, 1) for part in full[1:])
        else:
            parts.append((char, 0))
    return parts


def _in_canonical_order(parts: list[Change], tables: NormalizationTables) -> list[Change]:
    """Each run of marks sorted by combining class, equal classes left in order (linear if sorted)."""
    combining = tables.combining
    ordered: list[Change] = []
    marks: list[Change] = []
    for part in parts:
        if part[0] in combining:
            marks.append(part)
            continue
        if marks:
            ordered += sorted(marks, key=lambda mark: combining[mark[0]])
            marks = []
        ordered.append(part)
    return ordered + sorted(marks, key=lambda mark: combining[mark[0]])


def _decompose_hangul(char: str) -> str:
    index = ord(char) - S_BASE
    if not 0 <= index < S_COUNT:
        return ""
    lead, rest = divmod(index, V_COUNT * T_COUNT)
    vowel, tail = divmod(rest, T_COUNT)
    return chr(L_BASE + lead) + chr(V_BASE + vowel) + (chr(T_BASE + tail) if tail else "")


def _compose_hangul(base: str, char: str) -> str | None:
    first, second = ord(base), ord(char)
    if 0 <= first - L_BASE < L_COUNT and 0 <= second - V_BASE < V_COUNT:
        return chr(S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT)
    if 0 <= first - S_BASE < S_COUNT and (first - S_BASE) % T_COUNT == 0 and 0 < second - T_BASE < T_COUNT:
        return chr(first + second - T_BASE)
    return None
