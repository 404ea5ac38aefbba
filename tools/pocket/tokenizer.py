"""The miniature's vocabulary: byte-level BPE with Qwen3.5's split pattern and its 33 special tokens.

Writes `tokenizer.json` and `tokenizer_config.json` in the published form: 26 of the added tokens stand in
both files, the last 7 only in `tokenizer_config.json`; their ids follow directly after the ordinary tokens.

    python -m tools.pocket.tokenizer --seed 1 --out build/pocket
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from qanat.text.published_form import CONFIG_ONLY, PLAIN, SPECIAL, added_token_flags, published_tokenizer_json
from qanat.text.splitter import QWEN3_5_PATTERN

BASE_TOKENS = 959  # 256 bytes and 703 merges; the 33 added tokens follow. Few: each is spelt and copied often

ADDED = [*SPECIAL, *PLAIN, *CONFIG_ONLY]
LIVE_TOKENS = BASE_TOKENS + len(ADDED)
_ANY_ADDED = re.compile("|".join(re.escape(token) for token in ADDED))


def token_id(content: str) -> int:
    """Id of an added token."""
    return BASE_TOKENS + ADDED.index(content)


def train(texts: Iterable[str]) -> Tokenizer:
    """Learn the merges from rendered conversations; the added tokens are cut out of them first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN3_5_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=BASE_TOKENS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(_pieces(texts), trainer)
    size = tokenizer.get_vocab_size()
    if size != BASE_TOKENS:
        raise ValueError(f"the corpus gave {size} tokens instead of {BASE_TOKENS}; give it more text")
    return tokenizer


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from (piece for piece in _ANY_ADDED.split(text) if piece)


def _added_entry(content: str) -> dict[str, Any]:
    return {"content": content, **added_token_flags(content not in PLAIN)}


def tokenizer_json(tokenizer: Tokenizer) -> dict[str, Any]:
    """The contents of `tokenizer.json`, its keys in the published order."""
    model = json.loads(tokenizer.to_str())["model"]
    return published_tokenizer_json(
        dict(sorted(model["vocab"].items(), key=lambda item: item[1])),
        [" ".join(merge) for merge in model["merges"]],
        [{"id": token_id(content), **_added_entry(content)} for content in [*SPECIAL, *PLAIN]],
    )


def tokenizer_config() -> dict[str, Any]:
    """The contents of `tokenizer_config.json`; the chat template has a file of its own."""
    return {
        "add_prefix_space": False,
        "added_tokens_decoder": {str(token_id(content)): _added_entry(content) for content in ADDED},
        "additional_special_tokens": SPECIAL[1:],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 4096,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
        "add_bos_token": False,
        "pretokenize_regex": QWEN3_5_PATTERN,
        "extra_special_tokens": {
            "audio_bos_token": "<|audio_start|>",
            "audio_eos_token": "<|audio_end|>",
            "audio_token": "<|audio_pad|>",
            "image_token": "<|image_pad|>",
            "video_token": "<|video_pad|>",
            "vision_bos_token": "<|vision_start|>",
            "vision_eos_token": "<|vision_end|>",
        },
    }


def write(tokenizer: Tokenizer, folder: Path) -> None:
    """Write both tokenizer files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, contents in [
        ("tokenizer.json", tokenizer_json(tokenizer)),
        ("tokenizer_config.json", tokenizer_config()),
    ]:
        text = json.dumps(contents, ensure_ascii=False, indent=2) + "\n"
        (folder / name).write_text(text, encoding="utf-8")


def load(folder: Path) -> Tokenizer:
    """The written vocabulary as a `tokenizers.Tokenizer` (the 26 added tokens of `tokenizer.json` only)."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def main() -> None:
    """Train on freshly generated conversations and write the two files."""
    from .corpus import text_of, tokenizer_sample

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--conversations", type=int, default=40_000)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    sample = tokenizer_sample(random.Random(args.seed), args.conversations)
    tokenizer = train(text_of(conversation) for conversation in sample)
    write(tokenizer, args.out)
    print(f"{LIVE_TOKENS} tokens, {(args.out / 'tokenizer.json').stat().st_size} bytes -> {args.out}")


if __name__ == "__main__":
    main()
