"""Record what transformers computes for the tiny models of tests/model: logits and its own rounding error.

Needs the parity environment: `make goldens`.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests")]

from tests.model import hf, oracle, tiny  # noqa: E402

PREFILL = (1, 2, 3, 5, 63, 64, 65, 200)
DECODE = 64


def record(name: str) -> dict[str, object]:
    """Per prefill length: logits of the last row and the largest error of any row; the same for decoding."""
    config, tensors = tiny.config_dict(name), tiny.random_tensors(name)
    tokens = tiny.token_stream(name, PREFILL[-1] + DECODE)
    model = hf.build(config, tensors)
    truth = oracle.logits(config, tensors, tokens)
    entry: dict[str, object] = {}
    for t in PREFILL:
        got = hf.logits(model, tokens[:t])
        entry[f"prefill {t}"] = {"error": _error(got, truth[:t]), "last": _pack(got[-1])}
    for t in (1, 5, 64, 200):
        got = hf.decoded_logits(model, tokens[:t], tokens[t : t + DECODE])
        entry[f"decode after {t}"] = {"error": _error(got, truth[t : t + DECODE]), "last": _pack(got[-1])}
    return entry


def _error(got: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(got - truth).max())


def _pack(row: np.ndarray) -> str:
    return row.astype("<f4").tobytes().hex()


def main() -> None:
    golden = {name: record(name) for name in tiny.VARIANTS}
    path = ROOT / "tests" / "golden" / "model.json.gz"
    path.write_bytes(gzip.compress(json.dumps(golden, indent=0).encode(), mtime=0))
    print(f"{path.relative_to(ROOT)}: {len(golden)} models, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
