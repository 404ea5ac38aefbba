"""Record transformers' greedy continuation of fifty chats on the built-in model, and its top-2 margins.

Needs the parity environment (`make goldens`); to be run again whenever the built-in weights change.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tests.pocket_prompts import PROMPTS  # noqa: E402

POCKET = ROOT / "src" / "qanat" / "pocket_model"
STEPS = 200


def main() -> None:
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32, attn_implementation="eager")
    model.generation_config.eos_token_id = None  # all 200 tokens, beyond the end of the reply
    records = []
    for text in PROMPTS:
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_tensors="pt"
        )
        out = model.generate(
            **prompt,
            max_new_tokens=STEPS,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
            pad_token_id=tokenizer.pad_token_id,
        )
        top = torch.stack(out.logits)[:, 0].topk(2).values
        start = prompt["input_ids"].shape[1]
        records.append(
            {
                "text": text,
                "prompt": out.sequences[0, :start].tolist(),
                "reply": out.sequences[0, start:].tolist(),
                "smallest margin": float((top[:, 0] - top[:, 1]).min()),
            }
        )
        print(f"{len(records):3} of {len(PROMPTS)}", end="\r", file=sys.stderr, flush=True)
    golden = {
        "weights": hashlib.sha256((POCKET / "model.safetensors").read_bytes()).hexdigest(),
        "chats": records,
    }
    path = ROOT / "tests" / "golden" / "pocket.json.gz"
    path.write_bytes(gzip.compress(json.dumps(golden).encode(), mtime=0))
    print(f"{path.relative_to(ROOT)}: {len(records)} chats, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
