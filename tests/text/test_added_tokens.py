"""Added tokens are found where Hugging Face finds them, whatever their flags and neighbours."""

from __future__ import annotations

import json
import random
from itertools import product

import pytest

from qanat.text import AddedToken, Tokenizer
from qanat.text.added_tokens import AddedTokenFinder
from qanat.text.unicode_tables import WHITE_SPACE, is_word_character
from real_tokenizer import hugging_face, needs_vocabulary, ours, tiny_tokenizer_json, write_folder

tokenizers = pytest.importorskip("tokenizers", reason="compares with Hugging Face's tokenizers")


def spans(text: str, *tokens: AddedToken, skip_special: bool = False) -> list[str]:
    finder = AddedTokenFinder((token.content, token) for token in tokens)
    return [
        f"[{text[start:end]}]" if token else text[start:end]
        for token, start, end in finder.split(text, skip_special=skip_special)
    ]


def test_leftmost_match_wins_and_of_those_at_one_place_the_longest() -> None:
    assert spans("abcd", AddedToken(0, "bcd"), AddedToken(1, "ab")) == ["[ab]", "cd"]
    assert spans("abcd", AddedToken(0, "ab"), AddedToken(1, "abc")) == ["[abc]", "d"]
    assert spans("abab", AddedToken(0, "abc"), AddedToken(1, "ab")) == ["[ab]", "[ab]"]


def test_a_match_that_fails_halfway_does_not_hide_one_that_starts_inside_it() -> None:
    assert spans("<<a>", AddedToken(0, "<<b"), AddedToken(1, "<a>")) == ["<", "[<a>]"]


def test_single_word_rejects_a_match_that_touches_a_word_character() -> None:
    token = AddedToken(0, "ab", single_word=True)
    assert spans("ab xab abx ab_ -ab- ab", token) == ["[ab]", " xab abx ab_ -", "[ab]", "- ", "[ab]"]


def test_a_rejected_match_still_hides_what_overlaps_it() -> None:
    assert spans("xabc", AddedToken(0, "ab", single_word=True), AddedToken(1, "bc")) == ["xabc"]


def test_strip_flags_swallow_space_but_not_what_the_previous_match_took() -> None:
    both = AddedToken(0, "|", lstrip=True, rstrip=True)
    assert spans("a  | \n b", both) == ["a", "[  | \n ]", "b"]
    assert spans("| |", both) == ["[| ]", "[|]"]
    assert spans("a\x1c|\x1cb", both) == ["a\x1c", "[|]", "\x1cb"]  # 1C is no white space here


def test_empty_tokens_are_ignored_and_no_tokens_leave_the_text_whole() -> None:
    assert spans("ab", AddedToken(0, "")) == ["ab"]
    assert spans("ab") == ["ab"]
    assert spans("") == []


def test_skip_special_leaves_only_special_tokens_as_text() -> None:
    tokens = AddedToken(0, "<s>", special=True), AddedToken(1, "<t>")
    assert spans("<s><t>", *tokens, skip_special=True) == ["<s>", "[<t>]"]


FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def random_tokens(rng: random.Random) -> list[dict[str, object]]:
    alphabet = ["a", "b", "<", " ", "e\u0301", "\u00e9", "\u212b"]
    contents = {"".join(rng.choices(alphabet, k=rng.randrange(1, 4))) for _ in range(rng.randrange(1, 6))}
    # A single byte-level letter is in the base vocabulary already, with an id of its own.
    contents = {content for content in sorted(contents) if len(content) > 1}
    return [{"content": c, **{flag: rng.random() < 0.4 for flag in FLAGS}} for c in sorted(contents)]


@pytest.mark.parametrize("seed", range(30))
def test_every_mix_of_flags_finds_what_hugging_face_finds(seed: int, tmp_path) -> None:
    rng = random.Random(seed)
    data = tiny_tokenizer_json(added=random_tokens(rng))
    tokenizer = Tokenizer.from_folder(write_folder(tmp_path, data))
    reference = tokenizers.Tokenizer.from_str(json.dumps(data))
    alphabet = [
        "a",
        "b",
        "<",
        " ",
        "\n",
        "e",
        "\u0301",
        "\u00e9",
        "\u212b",
        "\u00c5",
        "_",
        "-",
        "\x1c",
        "\u3000",
    ]
    for _ in range(60):
        text = "".join(rng.choices(alphabet, k=rng.randrange(0, 14)))
        encoding = reference.encode(text, add_special_tokens=False)
        expected = [(token, *place) for token, place in zip(encoding.ids, encoding.offsets, strict=True)]
        assert tokenizer.encode(text) == encoding.ids, ascii(text)
        assert tokenizer.encode_with_offsets(text) == expected, ascii(text)
        assert tokenizer.explain(text).ids == encoding.ids, ascii(text)
        for skip in (False, True):
            assert tokenizer.decode(encoding.ids, skip_special_tokens=skip) == reference.decode(
                encoding.ids, skip_special_tokens=skip
            )
        reference.encode_special_tokens = True
        split = reference.encode(text, add_special_tokens=False).ids
        reference.encode_special_tokens = False
        assert tokenizer.encode(text, split_special_tokens=True) == split, ascii(text)


@needs_vocabulary
def test_every_added_token_in_every_placement_equals_hugging_face() -> None:
    tokenizer, reference = ours(), hugging_face()
    neighbours = ["", " ", "a", "\n", "\u0301", "e", "1", "'s", "<", ">", "|", "\u00e9", "\u4e00"]
    for token in tokenizer.added_tokens:
        for before, after in product(neighbours, repeat=2):
            text = before + token.content + after
            encoding = reference.encode(text, add_special_tokens=False)
            assert tokenizer.encode(text) == encoding.ids, ascii(text)
            assert token.id in encoding.ids


@needs_vocabulary
def test_pairs_of_added_tokens_and_broken_spellings_equal_hugging_face() -> None:
    tokenizer, reference = ours(), hugging_face()
    contents = [token.content for token in tokenizer.added_tokens]
    for first, second in product(contents, repeat=2):
        for text in (first + second, first[:-1] + second, first + second[1:], first.upper() + second):
            assert tokenizer.encode(text) == reference.encode(text, add_special_tokens=False).ids, text


@needs_vocabulary
def test_split_special_tokens_still_matches_added_tokens_that_are_not_special() -> None:
    assert ours().encode("<|im_end|><think>", split_special_tokens=True) == [
        27,
        91,
        316,
        6018,
        91,
        29,
        248068,
    ]


def probe_words(codes: list[int], tmp_path) -> tuple[list[int], list[int]]:
    """Of `codes`, those that Hugging Face's and our `single_word` take for word characters."""
    data = tiny_tokenizer_json(added=[{"content": "<tok>", "single_word": True}])
    reference = tokenizers.Tokenizer.from_str(json.dumps(data))
    token_id = data["added_tokens"][0]["id"]
    texts = [f"<tok>{chr(code)}" for code in codes]
    found = reference.encode_batch(texts, add_special_tokens=False)
    theirs = [code for code, encoding in zip(codes, found, strict=True) if token_id not in encoding.ids]
    return theirs, [code for code in codes if is_word_character(chr(code))]


def test_word_characters_are_hugging_faces_in_a_sample(tmp_path) -> None:
    rng = random.Random(7)
    codes = [*range(0x3000), *(rng.randrange(0xE000, 0x110000) for _ in range(4000))]
    theirs, our_words = probe_words(codes, tmp_path)
    assert our_words == theirs


@pytest.mark.proof
def test_word_characters_and_white_space_are_hugging_faces_for_every_code_point(tmp_path) -> None:
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    theirs, our_words = probe_words(codes, tmp_path)
    assert our_words == theirs
    data = tiny_tokenizer_json(added=[{"content": "<tok>", "rstrip": True}])
    reference = tokenizers.Tokenizer.from_str(json.dumps(data))
    found = reference.encode_batch([f"<tok>{chr(code)}" for code in codes], add_special_tokens=False)
    swallowed = {chr(code) for code, encoding in zip(codes, found, strict=True) if len(encoding.ids) == 1}
    assert swallowed == WHITE_SPACE
