"""Record what transformers' logits processors do to small rows of logits: tests/golden/sampling.json.gz.

Run by `make goldens`. Logits are multiples of 1/8 or 1/64, so that there are ties and the file is exact.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "sampling.json.gz"
V = 40


def settings(rng: np.random.Generator) -> dict[str, Any]:
    """One random request: every processor is on in about half of the cases."""

    def maybe(value: float, off: float) -> float:
        return round(float(value), 3) if rng.random() < 0.6 else off

    return {
        "temperature": maybe(rng.uniform(0.2, 3), 1.0),
        "top_k": int(rng.integers(1, V + 5)) if rng.random() < 0.5 else 0,
        "top_p": maybe(rng.uniform(0.05, 1), 1.0),
        "min_p": maybe(rng.uniform(0, 0.5), 0.0),
        "repetition_penalty": maybe(rng.uniform(0.5, 2), 1.0),
        "logit_bias": {int(i): float(rng.integers(-16, 16)) / 4 for i in rng.integers(0, V, 3)}
        if rng.random() < 0.3
        else {},
        "banned": rng.integers(0, V, 2).tolist() if rng.random() < 0.3 else [],
    }


def transformers_row(logits: NDArray[Any], tokens: list[int], s: dict[str, Any], dtype: Any) -> NDArray[Any]:
    """The processed row [V]: -inf where a token was dropped."""
    import torch
    from transformers.generation import logits_process as lp

    processors = lp.LogitsProcessorList()
    if s["logit_bias"]:
        processors.append(lp.SequenceBiasLogitsProcessor({(i,): b for i, b in s["logit_bias"].items()}))
    if s["repetition_penalty"] != 1.0:
        processors.append(lp.RepetitionPenaltyLogitsProcessor(s["repetition_penalty"]))
    if s["banned"]:
        processors.append(lp.SuppressTokensLogitsProcessor(s["banned"]))
    if s["temperature"] != 1.0:
        processors.append(lp.TemperatureLogitsWarper(s["temperature"]))
    if s["top_k"]:
        processors.append(lp.TopKLogitsWarper(s["top_k"]))
    if s["top_p"] < 1.0:
        processors.append(lp.TopPLogitsWarper(s["top_p"]))
    if s["min_p"]:
        processors.append(lp.MinPLogitsWarper(s["min_p"]))
    ids = torch.tensor([tokens])
    scores = torch.from_numpy(logits.astype(np.float32))[None].to(dtype)
    result: NDArray[Any] = processors(ids, scores)[0].numpy()
    return result


def main() -> None:
    """Write the file."""
    import torch

    torch.set_num_threads(1)
    cases = []
    for number in range(150):
        rng = np.random.default_rng(number)
        grain = 8 if number % 2 else 64
        steps = np.rint(rng.standard_normal(V) * 2.5 * grain).astype(int)
        tokens = rng.integers(0, V, 12).tolist()
        s = settings(rng)
        row = transformers_row(steps / grain, tokens, s, torch.float32)
        kept = np.flatnonzero(np.isfinite(row))
        cases.append(
            {
                "grain": grain,
                "logits": steps.tolist(),
                "tokens": tokens,
                "settings": s,
                "kept": kept.tolist(),
                "values": [float(v) for v in row[kept]],
            }
        )
    data = json.dumps(cases, separators=(",", ":")).encode()
    GOLDEN.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{GOLDEN}: {len(cases)} cases, {GOLDEN.stat().st_size} bytes")


if __name__ == "__main__":
    main()
