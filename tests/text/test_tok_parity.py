"""Live comparison with transformers' AutoTokenizer, on text drawn anew (run by `make parity`)."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from qanat.text import Segment
from qanat.text.vocabulary import real_tokenizer_folder
from real_tokenizer import needs_vocabulary, ours

pytestmark = [pytest.mark.parity, needs_vocabulary]


@pytest.fixture(scope="module")
def transformers_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    transformers = pytest.importorskip("transformers", reason="compares with transformers")
    folder = tmp_path_factory.mktemp("qwen")
    for path in real_tokenizer_folder().iterdir():
        shutil.copy(path, folder)
    (Path(folder) / "config.json").write_text('{"model_type": "qwen3_5"}', encoding="utf-8")
    return transformers.AutoTokenizer.from_pretrained(folder)


def test_text_ids_offsets_and_decoding(transformers_tokenizer: Any) -> None:
    from tools.goldens.tokenizer import random_text, text_case

    rng = random.Random()
    for _ in range(2000):
        case = text_case(transformers_tokenizer, random_text(rng))
        text, ids = case["text"], case["ids"]
        places = list(zip(case["offsets"][::2], case["offsets"][1::2], strict=True))
        assert ours().encode(text) == ids, ascii(text)
        assert ours().encode(text, split_special_tokens=True) == case["split"], ascii(text)
        assert [span[1:] for span in ours().encode_with_offsets(text)] == places, ascii(text)
        assert ours().decode(ids) == case["decoded"], ascii(text)
        assert ours().decode(ids, skip_special_tokens=True) == case["skipped"], ascii(text)


def test_prompts_with_a_users_control_tokens_as_plain_text(transformers_tokenizer: Any) -> None:
    from tools.goldens.tokenizer import prompt_case

    rng = random.Random()
    for _ in range(500):
        case = prompt_case(transformers_tokenizer, rng)
        segments = [Segment(text, trusted) for text, trusted in case["segments"]]
        assert ours().encode_prompt(segments) == case["ids"], ascii(segments)
