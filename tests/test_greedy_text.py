"""The whole path on the built-in model: prompt, ids and 200 greedy tokens equal transformers' (recorded)."""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import cache
from typing import Any

import pytest

from assets import GOLDEN, POCKET
from qanat import LLM, SamplingParams
from tests.pocket_prompts import PROMPTS

STEPS = 200


@cache
def golden() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress((GOLDEN / "pocket.json.gz").read_bytes()))
    return loaded


@cache
def llm(backend: str) -> LLM:
    return LLM("pocket", backend=backend, max_batch=10)


def test_the_recording_belongs_to_these_weights() -> None:
    digest = hashlib.sha256((POCKET / "model.safetensors").read_bytes()).hexdigest()
    assert golden()["weights"] == digest, "the built-in weights changed: run `make goldens`"
    assert [chat["text"] for chat in golden()["chats"]] == PROMPTS


def check(chats: list[dict[str, Any]], backend: str) -> None:
    for chat in chats:
        prompt = llm(backend).template.render(
            [{"role": "user", "content": chat["text"]}], add_generation_prompt=True
        )
        assert llm(backend).tokenizer.encode(prompt) == chat["prompt"], chat["text"]
    params = SamplingParams(
        temperature=0,
        repetition_penalty=1.0,
        max_tokens=STEPS,
        min_tokens=0,
        ignore_eos=True,
        top_k=0,
        top_p=1.0,
    )
    replies = llm(backend).generate([chat["prompt"] for chat in chats], params)
    for chat, reply in zip(chats, replies, strict=True):
        assert list(reply.token_ids) == chat["reply"], (chat["text"], chat["smallest margin"])


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_ten_chats_equal_transformers_token_for_token(backend: str) -> None:
    check(golden()["chats"][::5], backend)


@pytest.mark.proof
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_fifty_chats_equal_transformers_token_for_token(backend: str) -> None:
    check(golden()["chats"], backend)
