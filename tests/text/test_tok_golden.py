"""Recorded results of transformers' AutoTokenizer on the real vocabulary (tools/goldens/tokenizer.py)."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

from assets import GOLDEN
from qanat.text import Segment
from real_tokenizer import needs_vocabulary, ours

pytestmark = needs_vocabulary


@cache
def golden() -> dict[str, Any]:
    return json.loads(gzip.decompress((GOLDEN / "tokenizer.json.gz").read_bytes()))


def test_length_and_named_special_tokens() -> None:
    assert len(ours()) == golden()["length"]
    assert ours().special_tokens_map == golden()["special_tokens_map"]


def test_ids_offsets_and_text_of_every_recorded_string() -> None:
    for case in golden()["texts"]:
        text, ids = case["text"], case["ids"]
        places = list(zip(case["offsets"][::2], case["offsets"][1::2], strict=True))
        expected = [(token, *place) for token, place in zip(ids, places, strict=True)]
        assert ours().encode(text) == ids, ascii(text)
        assert ours().encode(text, split_special_tokens=True) == case["split"], ascii(text)
        assert ours().encode_with_offsets(text) == expected, ascii(text)
        assert ours().decode(ids) == case["decoded"], ascii(text)
        assert ours().decode(ids, skip_special_tokens=True) == case["skipped"], ascii(text)


def test_text_of_every_recorded_sequence_of_ids() -> None:
    for case in golden()["decodes"]:
        assert ours().decode(case["ids"]) == case["decoded"]
        assert ours().decode(case["ids"], skip_special_tokens=True) == case["skipped"]


def test_prompts_with_a_users_control_tokens_as_plain_text() -> None:
    for case in golden()["prompts"]:
        segments = [Segment(text, trusted) for text, trusted in case["segments"]]
        assert ours().encode_prompt(segments) == case["ids"], ascii(segments)
