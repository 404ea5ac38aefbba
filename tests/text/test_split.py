"""The hand-written splitter cuts where the published regular expressions cut."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.errors import TokenizerError
from qanat.text import unicode_data
from qanat.text.splitter import QWEN2_PATTERN, QWEN3_5_PATTERN, Splitter
from qanat.text.unicode_tables import code_points, ranges
from real_tokenizer import best_seconds

SPLITTERS = {pattern: Splitter(pattern) for pattern in (QWEN2_PATTERN, QWEN3_5_PATTERN)}
BOTH = pytest.mark.parametrize("pattern", SPLITTERS, ids=["qwen2", "qwen3.5"])

# Every kind of character the patterns tell apart, so that short random strings meet every rule.
KINDS = list("aSstRevlLmD1\u017f\u212a\u00e9\u4e00\u0301\u0903\u20dd\u00bd\u0664\u2160")
KINDS += list("  \t\n\r\u00a0\u3000\u0085\u2028\x1c''\u2019!.-\u200d\ufeff\U0001f600")


def split(text: str, pattern: str = QWEN3_5_PATTERN) -> list[str]:
    return SPLITTERS[pattern].split(text)


@pytest.mark.parametrize(
    "pieces",
    [
        ["Hello", " world"],
        ["x", "'\u017f", "y"],  # long s is another case of s
        ["'S", "'LL", "'Re", "'vE"],
        ["a", "'b"],
        ["don", "\u2019t"],
        ["!\u0301a"],
        ["\u200da"],
        [" \u0301"],
        ["1", "2", "ab"],
        ["\u00bd", "\u00b2"],
        ["a", " \r\n", " b"],
        ["x", "\n\n", " ", " y"],
        ["  \n  \n", " x"],
        ["a", "  "],
        [" ", " ", "1"],
        ["  ", " a"],
        [" !?\r\n\n", " ", "\t", "."],  # only U+0020 leads a run of signs
        ["\ta"],
        ["\u3000\u3000"],
        ["'"],
        ["'''", "s"],  # signs run on; a contraction begins only where a piece does
        [],
    ],
)
def test_pieces_of_the_qwen3_5_pattern(pieces: list[str]) -> None:
    assert split("".join(pieces)) == pieces


def test_marks_are_signs_in_the_older_pattern_and_letters_in_the_newer() -> None:
    assert split("e\u0301x", QWEN2_PATTERN) == ["e", "\u0301x"]
    assert split("\u0301\u0301!", QWEN2_PATTERN) == ["\u0301\u0301!"]
    assert split("e\u0301x", QWEN3_5_PATTERN) == ["e\u0301x"]


@BOTH
@given(text=st.text(st.sampled_from(KINDS), max_size=40) | st.text(max_size=40))
def test_joined_pieces_are_the_text_and_none_is_empty(pattern: str, text: str) -> None:
    pieces = split(text, pattern)
    assert "".join(pieces) == text
    assert all(pieces)


def test_any_other_pattern_is_refused_by_name() -> None:
    with pytest.raises(TokenizerError, match=r"pattern '\\\\w\+' is not one of"):
        Splitter(r"\w+")
    with pytest.raises(TokenizerError):
        Splitter(QWEN3_5_PATTERN + " ")


def reference_splits(pattern: str, text: str) -> list[str]:
    tokenizers = pytest.importorskip("tokenizers", reason="compares with Hugging Face's tokenizers")
    rule = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    return [piece for piece, _ in rule.pre_tokenize_str(text)]


@BOTH
def test_random_strings_equal_hugging_face(pattern: str) -> None:
    rng = random.Random(5)
    # Long strings: Hugging Face compiles the pattern anew for each call here.
    for _ in range(40):
        text = "".join(rng.choices(KINDS, k=1500))
        assert split(text, pattern) == reference_splits(pattern, text)


def around(codes: list[int]) -> str:
    """Each character after a letter and before one: its class shows in where the cuts fall."""
    return "".join(f"a{chr(code)}b\n" for code in codes)


@BOTH
def test_the_ends_of_every_class_range_equal_hugging_face(pattern: str) -> None:
    edges = {
        code
        for table in (unicode_data.LETTERS, unicode_data.MARKS, unicode_data.NUMBERS)
        for first, last in ranges(table)
        for code in (first - 1, first, last, last + 1)
        if not 0xD800 <= code < 0xE000
    }
    text = around(sorted(edges))
    assert split(text, pattern) == reference_splits(pattern, text)


@pytest.mark.proof
@BOTH
def test_every_code_point_equals_hugging_face(pattern: str) -> None:
    for start in range(0, 0x110000, 0x4000):
        text = around([code for code in range(start, start + 0x4000) if not 0xD800 <= code < 0xE000])
        assert split(text, pattern) == reference_splits(pattern, text), hex(start)


@BOTH
def test_random_strings_equal_the_regex_module_on_settled_characters(pattern: str) -> None:
    regex = pytest.importorskip("regex", reason="the regex module comes with another package")
    compiled = regex.compile(pattern)
    classes = {code: name for name in "LMN" for code in code_points(getattr(unicode_data, _TABLE[name]))}

    def agreed(char: str) -> bool:
        """Whether the module's Unicode version classes the character as ours does."""
        name = classes.get(ord(char))
        return name is not None and regex.match(rf"\p{{{name}}}", char) is not None

    rng = random.Random(9)
    letters = [chr(code) for code in rng.sample(sorted(classes), 3000)]
    alphabet = KINDS * 40 + [char for char in letters if agreed(char)]
    for _ in range(1500):
        text = "".join(rng.choices(alphabet, k=rng.randrange(1, 25)))
        assert split(text, pattern) == compiled.findall(text), ascii(text)


_TABLE = {"L": "LETTERS", "M": "MARKS", "N": "NUMBERS"}


@pytest.mark.proof
@pytest.mark.parametrize("unit", ["a", " ", "\n", "!", "'", " a", " \n", "1", "\u0301", "'s"])
def test_time_grows_with_length_and_no_faster(unit: str) -> None:
    half, whole = best_seconds(split, unit)
    assert whole <= 2.2 * half + 0.02
