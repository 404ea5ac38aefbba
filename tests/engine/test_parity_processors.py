"""Our processors beside transformers' own, on rows too large to record."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from qanat.backends.reference.processors import keep_candidates, process_logits
from qanat.model.sampling import SamplingRow

pytestmark = pytest.mark.parity


def rows(number: int) -> tuple[NDArray[np.float32], SamplingRow, dict[str, object], list[int]]:
    from tools.goldens.sampling import settings

    rng = np.random.default_rng(number)
    size = (300, 5000, 248320)[0 if number % 10 else 1 if number % 50 else 2]
    logits = (rng.standard_normal(size) * 3).astype(np.float32)
    if number % 3 == 0:  # as bfloat16 logits would: many ties
        logits = (np.rint(logits * 4) / 4).astype(np.float32)
    s = settings(rng)
    tokens = rng.integers(0, size, 40).tolist()
    row = SamplingRow(
        **{k: s[k] for k in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "logit_bias")},
        banned=np.array(s["banned"], np.int32),
        prompt=np.array(tokens[:30], np.int32),
        output=np.array(tokens[30:], np.int32),
    )
    return logits, row, s, tokens


@pytest.mark.parametrize("block", range(10))
def test_processors_equal_transformers(block: int) -> None:
    import torch

    from tools.goldens.sampling import transformers_row

    torch.set_num_threads(1)
    for number in range(block * 40, block * 40 + 40):
        logits, row, s, tokens = rows(number)
        x = process_logits(logits, row, len(logits))
        kept, weights = keep_candidates(x, row)
        values = transformers_row(
            logits, tokens, {**s, "top_k": 0, "top_p": 1.0, "min_p": 0.0}, torch.float32
        )
        assert np.array_equal(x, values), number  # elementwise steps: bit for bit
        # The cuts on the same processed values: exactly in float64, and in float32 but for the tokens
        # within its rounding of the cut.
        cuts = {**s, "temperature": 1.0, "repetition_penalty": 1.0, "banned": [], "logit_bias": {}}
        exact = transformers_row(x, tokens, cuts, torch.float64)
        assert_same_cut(x, kept, exact, number)
        single = transformers_row(logits, tokens, s, torch.float32)
        few, many = sorted((x[kept].tolist(), single[np.isfinite(single)].tolist()), key=len)
        odd = np.array(sorted(many)[: len(many) - len(few)], np.float64)
        assert np.exp(odd - x.max()).sum() / weights.sum() < 2e-4, number


def assert_same_cut(
    x: NDArray[np.float32], kept: NDArray[np.int64], theirs: NDArray[np.float64], number: int
) -> None:
    """The same ids, but for which ones of a tie at the cut: there transformers' sort is not stable."""
    other = np.flatnonzero(np.isfinite(theirs))
    assert np.array_equal(np.sort(x[kept]), np.sort(x[other])), number
    last = x[kept].min()
    assert set(kept[x[kept] > last]) == set(other[x[other] > last]), number
