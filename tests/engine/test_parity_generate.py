"""`LLM.generate` beside transformers' `generate` on the tiny model: greedy, penalties, end tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qanat.checkpoint import load_checkpoint
from qanat.engine import LLM, SamplingParams

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def llm(tiny_folder: Path) -> LLM:
    """Random weights decide between near equals: only float32 is as exact as transformers in float32."""
    return LLM(tiny_folder, weights="f32")


@pytest.fixture(scope="module")
def theirs(tiny_folder: Path) -> Any:
    from tests.model import hf

    config = json.loads((tiny_folder / "config.json").read_text())
    tensors = {name: np.array(view.array()) for name, view in load_checkpoint(tiny_folder).tensors.items()}
    return hf.build(config, tensors)


@pytest.mark.parametrize("options", [{}, {"repetition_penalty": 1.3}, {"min_new_tokens": 20}])
@pytest.mark.parametrize("prompt", ["Who are you?", "x", "The qanat brings water. " * 20])
def test_greedy_tokens_equal_transformers(
    llm: LLM, theirs: Any, prompt: str, options: dict[str, Any]
) -> None:
    import torch

    ids = llm.tokenizer.encode(prompt)
    # An end token that does come, so that stopping is compared too.
    first = llm.generate(ids, SamplingParams.greedy(max_tokens=30))
    end = [*sorted(llm.vocabulary.end_ids), first.token_ids[9]]
    dead = list(range(llm.vocabulary.live, llm.config.text.vocab_size))
    out = theirs.generate(
        torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        max_new_tokens=60,
        do_sample=False,
        eos_token_id=end,
        pad_token_id=0,
        suppress_tokens=dead,
        **options,
    )[0, len(ids) :].tolist()
    params = SamplingParams(
        temperature=0.0,
        max_tokens=60,
        stop_token_ids=[first.token_ids[9]],
        min_tokens=options.get("min_new_tokens"),
        repetition_penalty=options.get("repetition_penalty"),
    )
    reply = llm.generate(ids, params)
    assert list(reply.token_ids) == out
    assert reply.finish_reason == ("stop" if out[-1] in end else "length")
    assert reply.text == llm.tokenizer.decode(
        out[:-1] if reply.finish_reason == "stop" else out, skip_special_tokens=True
    )
