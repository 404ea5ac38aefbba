"""Write src/qanat/text/unicode_data.py: the Unicode facts of the tokenizer, frozen at two versions.

Character classes (letter, mark, number) are those of Unicode 16.0, normalisation is that of Unicode 9.0
(docs/frontend.md, sections 3 and 4). Both are reached from the tables of CPython 3.11 (Unicode 14.0) and
the short lists below, so this tool insists on such an interpreter; the tokenizer itself runs on any.

    python tools/unicode_tables.py           write the file
    python tools/unicode_tables.py --check   fail if the committed file differs; compare the classes with
                                             the published list, when present
"""

from __future__ import annotations

import json
import sys
import textwrap
import unicodedata
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src" / "qanat" / "text" / "unicode_data.py"
PUBLISHED = ROOT.parent / "shared" / "assets" / "qwen3.5" / "unicode_classes.json"

# Assigned between Unicode 14.0 and 16.0.
NEW_LETTERS = """1C89-1C8A A7CB-A7CD A7DA-A7DC 105C0-105F3 10D4A-10D65 10D6F-10D85 10EC2-10EC4 1123F-11240
11380-11389 1138B 1138E 11390-113B5 113B7 113D1 113D3 11BC0-11BE0 11F02 11F04-11F10 11F12-11F33 1342F
13441-13446 13460-143FA 16100-1611D 16D40-16D6C 18CFF 1B132 1B155 1DF25-1DF2A 1E030-1E06D 1E4D0-1E4EB
1E5D0-1E5ED 1E5F0 2B739 2EBF0-2EE5D 31350-323AF"""
NEW_MARKS = """0897 0CF3 0ECE 10D69-10D6D 10EFC-10EFF 11241 113B8-113C0 113C2 113C5 113C7-113CA 113CC-113D0
113D2 113E1-113E2 11F00-11F01 11F03 11F34-11F3A 11F3E-11F42 11F5A 13440 13447-13455 1611E-1612F 1E08F
1E4EC-1E4EF 1E5EE-1E5EF"""
NEW_DIGITS = """10D40-10D49 116D0-116E3 11BF0-11BF9 11F50-11F59 16130-16139 16D70-16D79 1CCF0-1CCF9
1E4F0-1E4F9 1E5F1-1E5FA"""
NEW_OTHER_NUMBERS = "1D2C0-1D2D3"

# Combining in Unicode 14.0, but not yet assigned in 9.0: they neither move nor let others move past them.
LATE_COMBINING = """07FD 0898-089F 08CA-08D3 09FE 0C3C 0D3B-0D3C 0EBA 1715 1ABF-1ACE 1DF6-1DFA A82C
10D24-10D27 10EAB-10EAC 10F46-10F50 10F82-10F85 11070 1133B 1145E 11839-1183A 1193D-1193E 11943 119E0
11A34 11A47 11A99 11D42 11D44-11D45 11D97 16FF0-16FF1 1E130-1E136 1E2AE 1E2EC-1E2EF"""
# The one composite that came between 9.0 and 14.0.
LATE_COMPOSITE = 0x11938

# Alphabetic characters outside the letters, marks and numbers: circled, squared and parenthesised Latin.
ALPHABETIC_SYMBOLS = "24B6-24E9 1F130-1F149 1F150-1F169 1F170-1F189"
JOIN_CONTROLS = "200C-200D"

HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)
ALL = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def parse(text: str) -> set[int]:
    codes: set[int] = set()
    for item in text.split():
        first, _, last = item.partition("-")
        codes.update(range(int(first, 16), int(last or first, 16) + 1))
    return codes


def ranges(codes: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for code in sorted(codes):
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in runs)


def category(*names: str) -> set[int]:
    return {code for code in ALL if unicodedata.category(chr(code)).startswith(names)}


def combining_classes() -> dict[int, set[int]]:
    late = parse(LATE_COMBINING)
    classes: dict[int, set[int]] = {}
    for code in ALL:
        value = unicodedata.combining(chr(code))
        if value and code not in late:
            classes.setdefault(value, set()).add(code)
    return classes


def canonical_decompositions() -> tuple[list[str], list[str]]:
    """Single-step decompositions: those that composition undoes, and those that it does not."""
    both, one_way = [], []
    for code in ALL:
        parts = unicodedata.decomposition(chr(code))
        if not parts or parts.startswith("<") or code in HANGUL_SYLLABLES or code == LATE_COMPOSITE:
            continue
        entry = f"{code:X}={'+'.join(f'{int(part, 16):X}' for part in parts.split())}"
        undone = unicodedata.normalize("NFC", chr(code)) == chr(code)
        (both if undone else one_way).append(entry)
    return both, one_way


def constant(name: str, comment: str, text: str) -> str:
    lines = textwrap.wrap(text, 102, break_on_hyphens=False, break_long_words=False)
    body = "\n".join(f'    "{line} "' for line in lines)
    return f"# {comment}\n{name} = (\n{body}\n)\n"


def build() -> str:
    other_numbers = category("No") | parse(NEW_OTHER_NUMBERS)
    numbers = category("N") | parse(NEW_DIGITS) | other_numbers
    letters = category("L") | parse(NEW_LETTERS)
    marks = category("M") | parse(NEW_MARKS)
    words = letters | marks | (numbers - other_numbers) | category("Pc")
    words |= parse(ALPHABETIC_SYMBOLS) | parse(JOIN_CONTROLS)
    both, one_way = canonical_decompositions()
    ccc = " ".join(f"{value}: {ranges(codes)};" for value, codes in sorted(combining_classes().items()))
    head = (
        '"""Unicode facts as text, hexadecimal; generated by tools/unicode_tables.py, not edited by hand.\n\n'
        "Classes: Unicode 16.0. Normalisation: Unicode 9.0. unicode_tables.py reads them.\n"
        '"""\n\nfrom __future__ import annotations\n\n'
    )
    return head + "\n".join(
        [
            constant("LETTERS", "General category L*.", ranges(letters)),
            constant("MARKS", "General category M*.", ranges(marks)),
            constant("NUMBERS", "General category N*.", ranges(numbers)),
            constant("WORDS", "Word characters: Alphabetic, M*, Nd, Pc, join controls.", ranges(words)),
            constant("COMBINING", "Canonical combining class: its characters;", ccc),
            constant("COMPOSED", "Canonical decompositions that composition undoes.", " ".join(both)),
            constant("DECOMPOSED_ONLY", "Canonical decompositions that stay decomposed.", " ".join(one_way)),
        ]
    )


def compare_with_published(data: dict[str, str]) -> None:
    if not PUBLISHED.is_file():
        print(f"no {PUBLISHED.name} beside the checkout: classes not compared")
        return
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    for letter, name in (("L", "LETTERS"), ("M", "MARKS"), ("N", "NUMBERS")):
        theirs, ours = parse(" ".join(published[letter])), parse(data[name])
        if theirs != ours:
            sys.exit(f"{name} differ from the published list: {ranges(theirs ^ ours)}")
        print(f"{name}: {len(ours)} code points, equal to the published list")


def main() -> None:
    if unicodedata.unidata_version != "14.0.0":
        sys.exit(
            f"needs an interpreter with Unicode 14.0 tables (CPython 3.11), not {unicodedata.unidata_version}"
        )
    text = build()
    data: dict[str, str] = {}
    exec(text, data)
    compare_with_published(data)
    if "--check" in sys.argv[1:]:
        if TARGET.read_text(encoding="utf-8") != text:
            sys.exit(f"{TARGET.name} is not what this tool writes: run it without --check")
        print(f"{TARGET.name} is up to date")
    else:
        TARGET.write_text(text, encoding="utf-8")
        print(f"wrote {TARGET} ({len(text):,} bytes)")


if __name__ == "__main__":
    main()
