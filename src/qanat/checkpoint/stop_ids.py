"""Where generation ends: the union of all places of a model folder that name an end token.

The published files disagree (docs/model.md, section 9): the text config names only `<|endoftext|>`, the
tokenizer only `<|im_end|>`, and small models have no generation_config.json. A chat needs both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qanat.checkpoint.config import ModelConfig
from qanat.checkpoint.fields import Fields
from qanat.checkpoint.strict_json import file_exists, read_json_file
from qanat.errors import CheckpointError

__all__ = ["END_TOKENS", "stop_ids"]

# Token -> its id in the vocabulary that all published Qwen3.5 models share.
END_TOKENS = {"<|im_end|>": 248046, "<|endoftext|>": 248044}
PUBLISHED_VOCAB = 248320


def stop_ids(folder: Path, config: ModelConfig, generation_config: Mapping[str, Any]) -> frozenset[int]:
    """Collect the stop ids of a model folder.

    Places: generation_config.json, both levels of config.json, the tokenizer's end-of-turn tokens, and for
    the published vocabulary the two well-known ids. Ids outside of the vocabulary cannot occur and are left
    out.

    Raises:
        CheckpointError: one of the files is damaged.
    """
    generation = Fields(generation_config, f"{folder / 'generation_config.json'}")
    ids = {*generation.token_ids("eos_token_id"), *config.eos_token_id, *config.text.eos_token_id}
    ids |= _from_tokenizer(folder)
    if config.text.vocab_size == PUBLISHED_VOCAB:
        ids |= set(END_TOKENS.values())
    return frozenset(i for i in ids if i < config.text.vocab_size)


def _from_tokenizer(folder: Path) -> set[int]:
    """Find the ids of the tokenizer's eos token and of `END_TOKENS` among its added tokens."""
    settings_file, tokenizer_file = folder / "tokenizer_config.json", folder / "tokenizer.json"
    wanted = set(END_TOKENS)
    known: dict[str, int] = {}
    if file_exists(settings_file):
        settings = read_json_file(settings_file, CheckpointError)
        eos = settings.get("eos_token")
        eos = eos.get("content") if isinstance(eos, dict) else eos
        if isinstance(eos, str):
            wanted.add(eos)
        decoder = settings.get("added_tokens_decoder")
        for key, token in decoder.items() if isinstance(decoder, dict) else ():
            if key.isascii() and key.isdecimal() and len(key) < 10 and isinstance(token, dict):
                known[str(token.get("content"))] = int(key)
    if not wanted <= known.keys() and file_exists(tokenizer_file):  # the large file only when it is needed
        added = read_json_file(tokenizer_file, CheckpointError).get("added_tokens")
        for token in added if isinstance(added, list) else ():
            if isinstance(token, dict) and type(token.get("id")) is int and token["id"] >= 0:
                known.setdefault(str(token.get("content")), token["id"])
    return {known[content] for content in wanted if content in known}
