"""Byte-pair encoding: lowest rank first, leftmost first, in time that grows with the piece."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets import SHARED, needs_shared
from qanat.text.bpe import Merges, MergeStep, MergeTables
from qanat.text.bytelevel import BYTE_TO_CHAR, from_bytes, to_bytes
from real_tokenizer import best_seconds, hugging_face, needs_vocabulary, ours

Rule = tuple[int, int, int]


def by_definition(rules: list[Rule], tokens: list[int]) -> list[int]:
    """The definition, word for word: find the pair of lowest rank, leftmost; join it; look again."""
    ranks = {(left, right): (rank, result) for rank, (left, right, result) in enumerate(rules)}
    while True:
        found = [(*ranks[pair], place) for place, pair in enumerate(pairwise(tokens)) if pair in ranks]
        if not found:
            return tokens
        _, result, place = min(found, key=lambda item: (item[0], item[2]))
        tokens = [*tokens[:place], result, *tokens[place + 2 :]]


@st.composite
def rules(draw: st.DrawFn) -> list[Rule]:
    """Random merges over four letters and earlier results, in a random order of rank."""
    texts = {bytes([byte]): byte for byte in range(256)}
    known = [bytes([byte]) for byte in b"abcd"]
    made: dict[tuple[bytes, bytes], Rule] = {}
    for _ in range(draw(st.integers(0, 25))):
        left, right = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        if len(left + right) > 8:
            continue
        result = texts.setdefault(left + right, len(texts))
        known.append(left + right)
        made[left, right] = (texts[left], texts[right], result)
    return draw(st.permutations(list(made.values())))


@given(rules(), st.text("abcd", max_size=40))
@settings(max_examples=150)
def test_short_and_long_pieces_do_what_the_definition_says(merges: list[Rule], text: str) -> None:
    table, expected = Merges(range(256), MergeTables.of(merges)), by_definition(merges, list(text.encode()))
    assert table._merge_by_scanning(list(text.encode()), None) == expected
    assert table._merge_in_order(list(text.encode()), None) == expected


def test_a_rank_below_the_current_one_is_taken_at_once() -> None:
    # Joining a+b (rank 1) makes ab, whose merge with c has the lower rank 0; then c is gone for c+c (rank 2).
    merges = [(256, 99, 257), (97, 98, 256), (99, 99, 258)]
    for text in (b"abcc", b"abccabcc" * 20):
        expected = by_definition(merges, list(text))
        assert Merges(range(256), MergeTables.of(merges))._merge_in_order(list(text), None) == expected


@given(rules(), st.text("abcd", max_size=60))
@settings(max_examples=60)
def test_steps_are_the_merges_in_order_and_end_in_the_result(merges: list[Rule], text: str) -> None:
    steps: list[MergeStep] = []
    tokens = Merges(range(256), MergeTables.of(merges)).encode(text.encode(), steps)
    state = list(text.encode())
    for rank, merge, after in steps:
        assert merges[rank] == merge
        assert len(after) == len(state) - 1
        state = list(after)
    assert state == tokens


def test_equal_rank_takes_the_leftmost() -> None:
    assert Merges(range(256), MergeTables.of([(97, 97, 256)])).encode(b"aaaaa") == [256, 256, 97]


def test_a_lower_rank_wins_over_a_longer_match() -> None:
    merges = [(98, 99, 256), (97, 98, 257), (257, 99, 258)]
    assert Merges(range(256), MergeTables.of(merges)).encode(b"abc") == [97, 256]


def test_of_two_merges_of_one_pair_the_later_counts() -> None:
    merges = Merges(range(256), MergeTables.of([(97, 98, 256), (98, 99, 257), (97, 98, 256)]))
    assert merges.encode(b"abc") == [97, 257]
    assert merges.rank(97, 98) == 2


def test_the_empty_piece_has_no_tokens() -> None:
    assert Merges(range(256), MergeTables.of([])).encode(b"") == []


def test_the_byte_alphabet_is_printable_one_to_one_and_keeps_ascii() -> None:
    assert len(set(BYTE_TO_CHAR)) == 256
    letters = [BYTE_TO_CHAR[byte] for byte in (0x21, 0x7E, 0x20, 0x0A, 0x00, 0xAD, 0xFF)]
    assert letters == list("!~\u0120\u010a\u0100\u0143\u00ff")


@given(st.binary())
def test_bytes_survive_the_alphabet(data: bytes) -> None:
    assert to_bytes(from_bytes(data)) == data


def test_a_token_with_a_letter_outside_the_alphabet_stands_for_its_utf8() -> None:
    assert to_bytes("a b") == b"a b"
    assert to_bytes("\u0120b") == b" b"
    assert to_bytes("\u4e2d\u0120") == "\u4e2d\u0120".encode()


@needs_vocabulary
def test_vocabulary_entries_that_no_merge_makes_are_not_taken_whole() -> None:
    assert ours().encode("\u4ff1\u4e50\u90e8") == [98112, 96404, 95938]
    assert ours().token_text(104328) == "\u4ff1\u4e50\u90e8"


@needs_vocabulary
@pytest.mark.proof
def test_201_entries_are_unreachable_and_split_as_in_hugging_face() -> None:
    tokenizer, reference = ours(), hugging_face()
    unreachable = 0
    for token in range(248_044):
        data = tokenizer.token_bytes(token)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        ids = tokenizer._merges.encode(data)  # as one piece, whatever splitting would do
        if ids != [token]:
            unreachable += 1
            assert ids == [part.id for part in reference.model.tokenize(from_bytes(text.encode()))]
    assert unreachable == 201


@needs_vocabulary
@needs_shared
def test_the_unreachable_entries_are_the_published_ones() -> None:
    import json

    for token, text, expected, _ in json.loads((SHARED / "qwen3.5" / "hf_vs_tiktoken.json").read_text()):
        assert ours().encode(text) == expected
        assert ours().token_text(token) == text


@needs_vocabulary
@pytest.mark.proof
@pytest.mark.parametrize("unit", ["a", " ", "\u0301", "ab", "\u4e00", "=", "\n", "\U0001f600"])
def test_a_megabyte_without_a_break_takes_seconds_and_twice_as_much_twice_as_long(unit: str) -> None:
    half, whole = best_seconds(ours().encode, unit)
    assert whole < 15
    assert whole <= 2.2 * half


@needs_vocabulary
@pytest.mark.proof
def test_long_random_pieces_equal_hugging_face() -> None:
    rng = random.Random(2)
    for alphabet in ("ab", "abcdefgh", "\u4e00\u4e8c\u7684\u6211", "\u0e01\u0e32\u0301"):
        text = "".join(rng.choices(alphabet, k=20_000))
        assert ours().encode(text) == hugging_face().encode(text, add_special_tokens=False).ids
