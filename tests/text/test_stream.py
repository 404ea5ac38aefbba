"""Streaming: the joined pieces are the whole decode, and no character comes too early or is lost."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qanat.errors import TokenizerError
from qanat.text import StreamDecoder, Tokenizer
from qanat.text.bytelevel import BYTE_TO_CHAR
from qanat.text.nfc import normalize
from real_tokenizer import hugging_face, needs_vocabulary, ours, pocket, tiny_tokenizer_json, write_folder


def pieces(decoder: StreamDecoder, ids: list[int]) -> list[str]:
    return [*(decoder.step(token) for token in ids), decoder.flush()]


@pytest.fixture(scope="module")
def bytes_only(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    added = [{"content": "<|end|>", "special": True}, {"content": "a \u4e2d"}]
    folder = tmp_path_factory.mktemp("bytes")
    return Tokenizer.from_folder(write_folder(folder, tiny_tokenizer_json(added=added)))


def ids_of(tokenizer: Tokenizer, data: bytes) -> list[int]:
    return [tokenizer.vocab[BYTE_TO_CHAR[byte]] for byte in data]


def test_a_character_appears_with_the_byte_that_completes_it(bytes_only: Tokenizer) -> None:
    ids = ids_of(bytes_only, "a\u00e9\u4e2d\U0001f984".encode())
    assert pieces(bytes_only.stream(), ids) == [
        "a", "", "\u00e9", "", "", "\u4e2d", "", "", "", "\U0001f984", "",
    ]  # fmt: skip


def test_bytes_that_cannot_become_a_character_are_replaced_at_once(bytes_only: Tokenizer) -> None:
    ids = ids_of(bytes_only, bytes.fromhex("F09F41C3288042E282ACFF43"))
    assert pieces(bytes_only.stream(), ids) == [
        "", "", "\ufffdA", "", "\ufffd(", "\ufffd", "B", "", "", "\u20ac", "\ufffd", "C", "",
    ]  # fmt: skip


def test_flush_replaces_an_unfinished_character_and_starts_anew(
    bytes_only: Tokenizer,
) -> None:
    decoder = bytes_only.stream()
    first = ids_of(bytes_only, b"\xf0\x9f\xa6")
    assert pieces(decoder, first) == ["", "", "", "\ufffd"]
    assert pieces(decoder, ids_of(bytes_only, b"a")) == ["a", ""]


def test_skipped_special_tokens_do_not_break_a_character_in_two(bytes_only: Tokenizer) -> None:
    end = bytes_only.token_id("<|end|>")
    assert end is not None
    lead, tail = ids_of(bytes_only, "\u00e9".encode())
    assert pieces(bytes_only.stream(skip_special_tokens=True), [lead, end, tail]) == ["", "", "\u00e9", ""]
    assert bytes_only.decode([lead, end, tail], skip_special_tokens=True) == "\u00e9"
    assert bytes_only.decode([lead, end, tail]) == "\ufffd<|end|>\ufffd"


def test_ids_without_a_token_give_nothing_and_negative_ones_are_refused(bytes_only: Tokenizer) -> None:
    assert bytes_only.decode([97 - 33, 10_000_000]) == bytes_only.decode([97 - 33])
    assert bytes_only.token_bytes(10_000_000) == b""
    assert bytes_only.stream().step(10_000_000) == ""
    with pytest.raises(TokenizerError, match="count from 0"):
        bytes_only.decode([-1])


@pytest.mark.parametrize("wrong", ["a", 1.5, None, [1], b"a"])
def test_what_is_no_whole_number_is_no_id(bytes_only: Tokenizer, wrong: Any) -> None:
    for skip in (False, True):
        with pytest.raises(TokenizerError, match="whole number"):
            bytes_only.decode([wrong], skip_special_tokens=skip)
    with pytest.raises(TokenizerError, match="whole number"):
        bytes_only.token_bytes(wrong)
    for nothing in (None, 5):
        with pytest.raises(TokenizerError, match="must be a list"):
            bytes_only.decode(nothing)  # type: ignore[arg-type]
    np = pytest.importorskip("numpy")
    assert bytes_only.decode(np.array([64, 65])) == bytes_only.decode([64, 65])


def test_an_added_token_outside_the_byte_alphabet_decodes_to_itself(bytes_only: Tokenizer) -> None:
    token = bytes_only.token_id("a \u4e2d")
    assert token is not None
    assert bytes_only.decode([token]) == bytes_only.token_text(token) == "a \u4e2d"


@given(data=st.data())
@settings(max_examples=150)
def test_joined_pieces_are_the_decode_for_any_ids(data: st.DataObject) -> None:
    tokenizer = pocket()
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) + 40), max_size=30))
    skip = data.draw(st.booleans())
    joined = "".join(pieces(tokenizer.stream(skip_special_tokens=skip), ids))
    assert joined == tokenizer.decode(ids, skip_special_tokens=skip)


@given(st.text(max_size=30))
def test_normalised_text_survives_encoding_and_decoding(text: str) -> None:
    tokenizer = pocket()
    assert tokenizer.decode(tokenizer.encode(text)) == "".join(
        stretch.normalized for stretch in tokenizer.explain(text).stretches
    )
    if not any(token.content in text for token in tokenizer.added_tokens):
        assert tokenizer.decode(tokenizer.encode(text)) == normalize(text)


@needs_vocabulary
def test_decoding_and_streaming_random_ids_equal_hugging_face() -> None:
    tokenizer, reference = ours(), hugging_face()
    rng = random.Random(8)
    partial = [token for token in range(248_044) if not _is_text(tokenizer.token_bytes(token))]
    for round_ in range(800):
        pool = partial if round_ % 2 else range(248_320)
        ids = [
            rng.randrange(248_044, 248_090) if rng.random() < 0.1 else rng.choice(pool)
            for _ in range(rng.randrange(1, 20))
        ]
        for skip in (False, True):
            expected = reference.decode(ids, skip_special_tokens=skip)
            assert tokenizer.decode(ids, skip_special_tokens=skip) == expected
            assert "".join(pieces(tokenizer.stream(skip_special_tokens=skip), ids)) == expected


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@needs_vocabulary
def test_skipping_keeps_added_tokens_that_are_not_special() -> None:
    ids = ours().encode("<think>a</think><|im_end|>")
    assert ours().decode(ids, skip_special_tokens=True) == "<think>a</think>"
