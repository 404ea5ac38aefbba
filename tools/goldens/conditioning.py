"""Find seeds for tests/model/tiny.py whose models are well conditioned, judged by the oracle alone.

A head whose output nearly cancels is blown up by the gated norm: one rounding in the weights can then move a
logit by 1e-4, and comparing implementations on such a token compares their luck. Prints a dict of seeds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests")]

from tests.model import oracle, tiny  # noqa: E402

NOISE = 2.0**-24
ENOUGH = 1.0e-5


def sensitivity(name: str) -> float:
    """Largest change of any logit under eight draws of rounding noise, relative to the largest logit / 3."""
    config, tensors = tiny.config_dict(name), tiny.random_tensors(name)
    tokens = tiny.token_stream(name, 264)
    truth = oracle.logits(config, tensors, tokens)
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(8):
        noisy = {k: np.float64(v) * (1 + NOISE * rng.standard_normal(v.shape)) for k, v in tensors.items()}
        worst = max(worst, float(np.abs(oracle.logits(config, noisy, tokens) - truth).max()))
    return worst * 3 / float(np.abs(truth).max())


def main() -> None:
    for name in tiny.VARIANTS:
        found: list[tuple[float, int]] = []
        for seed in range(1000, 1060):
            tiny.SEEDS[name] = seed
            found.append((sensitivity(name), seed))
            if found[-1][0] < ENOUGH:
                break
        worst, tiny.SEEDS[name] = min(found)
        print(f'    "{name}": {tiny.SEEDS[name]},  # {worst:.1e}', flush=True)


if __name__ == "__main__":
    main()
