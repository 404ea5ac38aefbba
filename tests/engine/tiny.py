"""A tiny random checkpoint with the built-in model's tokenizer and template, and replies by script."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assets import POCKET
from qanat.engine.llm import LLM
from qanat.model.sampling import Choice, SamplingRow
from tools.tiny_models import random_checkpoint

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "max_position_embeddings": 600,
}


def write_tiny(folder: Path, seed: int = 0, **overrides: Any) -> Path:
    """The folder, with a vocabulary that has dead rows."""
    rows = json.loads((POCKET / "config.json").read_text())["text_config"]["vocab_size"]
    random_checkpoint(folder, {**SIZES, "vocab_size": rows, **overrides}, seed)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(POCKET / name, folder / name)
    return folder


@contextmanager
def scripted(llm: LLM, text: str, *, end: bool = True) -> Iterator[None]:
    """Within the block the model writes `text`, then its end token."""
    end_id = llm.tokenizer.token_id("<|im_end|>")
    assert end_id is not None
    ids = [*llm.tokenizer.encode(text), *[end_id] * end]

    def sample(logits: Any, rows: Sequence[SamplingRow], live_vocab: int) -> list[Choice]:
        return [Choice(ids[row.output_index]) for row in rows]

    ops = llm._scheduler._model.ops
    ops.sample = sample  # type: ignore[method-assign]
    try:
        yield
    finally:
        del ops.sample
