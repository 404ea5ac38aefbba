"""A bound on tokens: what fits is as without one, what does not is given up early."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets import POCKET
from qanat import LLM, Tokenizer
from qanat.errors import RequestError, TooManyTokensError
from qanat.text.segments import Segment

TOKENIZER = Tokenizer.from_folder(POCKET)


@given(st.text(max_size=40), st.integers(0, 30))
def test_a_bound_changes_nothing_but_what_is_beyond_it(text: str, most: int) -> None:
    ids = TOKENIZER.encode(text)
    prompt = [Segment("<|im_start|>", trusted=True), Segment(text, trusted=False)]
    whole = TOKENIZER.encode_prompt(prompt)
    for expected, encode in (
        (ids, lambda: TOKENIZER.encode(text, most=most)),
        (whole, lambda: TOKENIZER.encode_prompt(prompt, most=most)),
    ):
        if len(expected) <= most:
            assert encode() == expected
        else:
            with pytest.raises(TooManyTokensError, match=f"more than {most} tokens"):
                encode()


@pytest.mark.parametrize(
    "text", ["x" * 3_000_000, "the quick " * 300_000, "\u4f60\u597d" * 500_000, " " * 3_000_000]
)
def test_of_megabytes_little_is_merged_before_they_are_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged = 0
    encode = TOKENIZER._merges.encode

    def counted(piece: bytes) -> list[int]:
        nonlocal merged
        merged += len(piece)
        return encode(piece)

    monkeypatch.setattr(TOKENIZER._merges, "encode", counted)
    with pytest.raises(TooManyTokensError):
        TOKENIZER.encode(text, most=10_000)
    assert merged < len(text.encode()) / 10


def test_an_engine_says_by_how_much_a_prompt_is_too_long_or_that_it_is_far_too_long() -> None:
    llm = LLM("pocket", backend="reference", max_model_len=64, max_batch=1)
    with pytest.raises(RequestError, match=r"the prompt has \d\d\d tokens"):
        llm.generate("word " * 100)
    with pytest.raises(RequestError, match=r"prompt 1 has more than 65536 tokens.*context length is 64"):
        llm.generate(["hello", "word " * 100_000])
    with pytest.raises(RequestError, match="the prompt has more than 65536 tokens"):
        llm.chat([{"role": "user", "content": "word " * 100_000}])
