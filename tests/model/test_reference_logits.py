"""The reference backend against transformers (recorded) and against the float64 oracle.

The bar (docs/numerics.md): error <= 3 x transformers' own error + 1e-5, both measured against float64.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from assets import GOLDEN
from tests.model import oracle, runs, tiny

PREFILL = (1, 2, 3, 5, 63, 64, 65, 200)
DECODE = 64
TOTAL = PREFILL[-1] + DECODE


@cache
def golden() -> dict[str, dict[str, dict[str, Any]]]:
    loaded: dict[str, dict[str, dict[str, Any]]] = json.loads(
        gzip.decompress((GOLDEN / "model.json.gz").read_bytes())
    )
    return loaded


@cache
def truth(name: str) -> NDArray[np.float64]:
    return oracle.logits(tiny.config_dict(name), tiny.random_tensors(name), tiny.token_stream(name, TOTAL))


@cache
def model(name: str) -> Any:
    return runs.build(tiny.config_dict(name), tiny.random_tensors(name))


def bar(name: str, case: str) -> float:
    return 3 * float(golden()[name][case]["error"]) + 1e-5


def last_row_of_transformers(name: str, case: str) -> NDArray[np.float32]:
    return np.frombuffer(bytes.fromhex(golden()[name][case]["last"]), "<f4")


def check(name: str, case: str, got: NDArray[np.float32], start: int) -> None:
    expected = truth(name)[start : start + len(got)]
    error = np.abs(got - expected).max()
    assert error <= bar(name, case), f"{case}: error {error:.2e}, bar {bar(name, case):.2e}"
    theirs = last_row_of_transformers(name, case)
    assert np.abs(got[-1] - theirs).max() <= bar(name, case) + golden()[name][case]["error"]


@pytest.mark.parametrize("name", tiny.VARIANTS)
def test_prefill_of_any_length_agrees_with_transformers(name: str) -> None:
    for t in PREFILL:
        got = runs.logits_of(model(name), [tiny.token_stream(name, t)])
        check(name, f"prefill {t}", got, 0)


@pytest.mark.parametrize("name", tiny.VARIANTS)
def test_decoding_token_by_token_agrees_with_transformers(name: str) -> None:
    tokens = tiny.token_stream(name, TOTAL)
    for t in (1, 5, 64, 200):
        pieces = [tokens[:t], *(tokens[i : i + 1] for i in range(t, t + DECODE))]
        check(name, f"decode after {t}", runs.logits_of(model(name), pieces)[t:], t)


@pytest.mark.parametrize("name", tiny.VARIANTS)
def test_greedy_choice_agrees_with_the_oracle_wherever_it_is_clear(name: str) -> None:
    expected = truth(name)[:200]
    got = runs.logits_of(model(name), [tiny.token_stream(name, 200)])
    top2 = np.sort(expected, axis=1)[:, -2:]
    clear = top2[:, 1] - top2[:, 0] > 2 * bar(name, "prefill 200")
    assert clear.mean() > 0.9
    assert (got.argmax(1) == expected.argmax(1))[clear].all()
