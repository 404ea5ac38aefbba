"""Normalisation is that of Unicode 9.0, as Hugging Face has it, whatever the interpreter's own tables say."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets import ROOT
from qanat.text.nfc import normalize, normalize_aligned
from qanat.text.unicode_tables import normalization_tables

TABLES = normalization_tables()
LATE_MARKS = "\u0898\u1ac0\u1abf\u1dfa\u0c3c\U00016ff0\U0001e2ae\u1715"
ACTIVE = sorted(
    {*TABLES.combining, *TABLES.decompositions, *(char for pair in TABLES.compositions for char in pair)}
    | {chr(code) for code in (*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A7, 0x11C3))}
    | {chr(code) for code in range(0xAC00, 0xD7A4, 11)}
)


def active_text(rng: random.Random) -> str:
    """Few characters, nearly all of which move, compose or decompose."""
    return "".join(
        rng.choice(ACTIVE)
        if rng.random() < 0.85
        else rng.choice(LATE_MARKS)
        if rng.random() < 0.3
        else chr(rng.choice((rng.randrange(0x20, 0x3000), rng.randrange(0xE000, 0x20000))))
        for _ in range(rng.randrange(1, 14))
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("e\u0301", "\u00e9"),
        ("\u212b\u2126\u2000", "\u00c5\u03a9\u2002"),  # one to one
        ("\u0958", "\u0915\u093c"),  # excluded from composition
        ("\u2add\u0338", "\u2add\u0338"),
        ("q\u0307\u0323", "q\u0323\u0307"),  # marks move into order
        ("a\u0323\u0302", "\u1ead"),  # composes twice
        ("a\u0328\u0323\u0301", "\u0105\u0323\u0301"),
        ("a\u0301\u0301", "\u00e1\u0301"),  # a mark of the same class blocks the next
        ("\u1100\u1161\u11a8", "\uac01"),
        ("\uac00\u11a7", "\uac00\u11a7"),  # 11A7 is no tail
        ("\uac01\u11a8", "\uac01\u11a8"),  # a full syllable takes no further tail
        ("\u0301e", "\u0301e"),
        ("", ""),
    ],
)
def test_composition_follows_the_standard(text: str, expected: str) -> None:
    assert normalize(text) == expected


@pytest.mark.parametrize("mark", LATE_MARKS)
def test_a_mark_assigned_after_unicode_9_neither_moves_nor_lets_others_pass(mark: str) -> None:
    assert normalize(f"a{mark}\u0323") == f"a{mark}\u0323"
    assert normalize(f"e{mark}\u0301") == f"e{mark}\u0301"


def test_pairs_that_compose_only_in_newer_unicode_stay_apart() -> None:
    for text in ("\U00011935\U00011930", "\U000105d2\u0307", "\U00016d63\U00016d67", "\U0001611e\U0001611e"):
        assert normalize(text) == text


def test_text_already_composed_comes_back_as_it_is() -> None:
    for text in ("Plain", "caf\u00e9, \u4e2d\u6587, \ud55c\uad6d\uc5b4, \U0001f600"):
        assert normalize(text) == text


@given(st.text(st.sampled_from(ACTIVE), max_size=20))
@settings(max_examples=200)
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalize(normalize(text)) == normalize(text)


@given(st.text(max_size=30), st.text(st.sampled_from(ACTIVE), max_size=10))
@settings(max_examples=100)
def test_the_alignment_covers_the_input_and_gives_the_same_text(plain: str, active: str) -> None:
    text = plain + active
    normalized, alignment = normalize_aligned(text)
    assert normalized == normalize(text)
    assert len(alignment.starts) == len(alignment.ends) == len(normalized)
    for start, end in zip(alignment.starts, alignment.ends, strict=True):
        assert 0 <= start < end <= len(text)
    assert sorted(alignment.starts) == alignment.starts


def test_characters_assigned_by_unicode_9_normalise_as_in_the_interpreter() -> None:
    rng = random.Random(11)
    for _ in range(4000):
        text = "".join(rng.choices(ACTIVE, k=rng.randrange(1, 12)))
        assert normalize(text) == unicodedata.normalize("NFC", text), ascii(text)


def compare_with_hugging_face(seed: int, rounds: int) -> None:
    reference = pytest.importorskip("tokenizers", reason="compares with Hugging Face").normalizers.NFC()
    rng = random.Random(seed)
    for _ in range(rounds):
        text = active_text(rng)
        assert normalize(text) == reference.normalize_str(text), ascii(text)


def test_random_sequences_equal_hugging_face() -> None:
    compare_with_hugging_face(seed=3, rounds=5000)


@pytest.mark.proof
def test_200_000_random_sequences_equal_hugging_face() -> None:
    compare_with_hugging_face(seed=4, rounds=200_000)


@pytest.mark.proof
def test_every_code_point_alone_and_between_letters_equals_hugging_face() -> None:
    reference = pytest.importorskip("tokenizers", reason="compares with Hugging Face").normalizers.NFC()
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        for text in (chr(code), f"a\u0327{chr(code)}\u0301"):
            assert normalize(text) == reference.normalize_str(text), ascii(text)


def test_the_room_never_asks_the_interpreter_for_unicode_properties() -> None:
    forbidden = re.compile(r"\bunicodedata\b(?!`)|\.(isspace|isalpha|isalnum|isnumeric|isprintable)\(")
    for path in (ROOT / "src" / "qanat" / "text").glob("*.py"):
        code = re.sub(r'""".*?"""|#[^\n]*', "", path.read_text(encoding="utf-8"), flags=re.S)
        if path.name in {"nfc.py", "unicode_tables.py", "splitter.py", "added_tokens.py", "tokenizer.py"}:
            assert not forbidden.search(code), path.name


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the tool needs CPython 3.11's tables")
def test_the_committed_tables_are_what_the_tool_writes() -> None:
    tool = Path(ROOT) / "tools" / "unicode_tables.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
