"""Offsets of tokens point at the characters of the input that Hugging Face's point at."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from real_tokenizer import hugging_face, needs_vocabulary, ours, pocket


def test_offsets_point_into_the_input_not_into_its_normal_form() -> None:
    text = "e\u0301 <think>\u212bx"
    spans = [(start, end) for _, start, end in pocket().encode_with_offsets(text)]
    covered = {text[start:end] for start, end in spans}
    assert "<think>" in covered
    assert spans[0] == (0, 1)  # the composed character points at its base alone
    assert spans[-1] == (len(text) - 1, len(text))


def test_tokens_that_share_a_character_all_point_at_it() -> None:
    spans = pocket().encode_with_offsets("x\U0001f984")
    assert len(spans) > 2
    assert [(start, end) for _, start, end in spans[1:]] == [(1, 2)] * (len(spans) - 1)


@given(text=st.text(max_size=40))
def test_ids_are_those_of_encode_and_places_are_ordered(text: str) -> None:
    tokenizer = pocket()
    spans = tokenizer.encode_with_offsets(text)
    assert [token for token, _, _ in spans] == tokenizer.encode(text)
    assert all(0 <= start < end <= len(text) for _, start, end in spans)
    assert [start for _, start, _ in spans] == sorted(start for _, start, _ in spans)


@needs_vocabulary
def test_random_text_has_the_offsets_of_hugging_face() -> None:
    tokenizer, reference = ours(), hugging_face()
    rng = random.Random(6)
    alphabet = ["<think>", "<|im_end|>", " the", "ing", *"aeo x\n'\u0301\u0323\u0344\u212b\u0958\u1100\u1161"]
    alphabet += [*"\u11a8\uac00\U0001f984\u4e2d\u0f73\u0f74"]
    for _ in range(2500):
        text = "".join(rng.choices(alphabet, k=rng.randrange(1, 16)))
        encoding = reference.encode(text, add_special_tokens=False)
        expected = [(token, *place) for token, place in zip(encoding.ids, encoding.offsets, strict=True)]
        assert tokenizer.encode_with_offsets(text) == expected, ascii(text)
