"""The form in which the Qwen3.5 models publish a tokenizer: added tokens, and tokenizer.json key by key
(docs/frontend.md, sections 1 and 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qanat.text.splitter import QWEN3_5_PATTERN

__all__ = [
    "CONFIG_ONLY",
    "PLAIN",
    "ROLES",
    "SPECIAL",
    "added_token_flags",
    "published_tokenizer_json",
]

# The added tokens by id, which follow the ordinary ones: special and plain ones of tokenizer.json,
# and special ones that only tokenizer_config.json lists.
SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>",
    "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>",
    "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
]  # fmt: skip
PLAIN = [
    "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
    "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>",
]  # fmt: skip
CONFIG_ONLY = [
    "<|audio_start|>", "<|audio_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>",
    "<tts_text_bos_single>", "<|audio_pad|>",
]  # fmt: skip

ROLES = {
    "audio_bos_token": "<|audio_start|>",
    "audio_eos_token": "<|audio_end|>",
    "audio_token": "<|audio_pad|>",
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_bos_token": "<|vision_start|>",
    "vision_eos_token": "<|vision_end|>",
}


def added_token_flags(special: bool) -> dict[str, bool]:
    """The flags of an added token: nothing is stripped, nothing normalised, words do not matter."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {**flags, "special": special}


def published_tokenizer_json(
    vocab: Mapping[str, int],
    merges: Sequence[str],
    added_tokens: Sequence[Mapping[str, Any]],
    *,
    pattern: str = QWEN3_5_PATTERN,
) -> dict[str, Any]:
    """The whole file.

    Args:
        vocab: token in byte-level letters -> id, by id.
        merges: "left right" by rank.
        added_tokens: entries with `id`, `content` and the five flags.
        pattern: the regular expression that splits text.
    """
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [dict(entry) for entry in added_tokens],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, dict(byte_level)]},
        "post_processor": dict(byte_level),
        "decoder": dict(byte_level),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": dict(vocab),
            "merges": list(merges),
        },
    }
