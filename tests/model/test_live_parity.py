"""The reference backend beside transformers, both run now (`make parity`)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.model import oracle, runs, tiny

pytestmark = pytest.mark.parity
PREFILL = (1, 2, 3, 5, 63, 64, 65, 200)


@pytest.mark.parametrize("name", tiny.VARIANTS)
def test_logits_are_as_close_to_float64_as_those_of_transformers(name: str) -> None:
    from tests.model import hf

    config, tensors = tiny.config_dict(name), tiny.random_tensors(name)
    tokens = tiny.token_stream(name, 264)
    theirs, ours = hf.build(config, tensors), runs.build(config, tensors)
    truth = oracle.logits(config, tensors, tokens)
    for t in PREFILL:
        their_error = np.abs(hf.logits(theirs, tokens[:t]) - truth[:t]).max()
        our_error = np.abs(runs.logits_of(ours, [tokens[:t]]) - truth[:t]).max()
        assert our_error <= 3 * their_error + 1e-5, f"prefill {t}: {our_error:.1e}, theirs {their_error:.1e}"
    decoded = hf.decoded_logits(theirs, tokens[:200], tokens[200:])
    pieces = [tokens[:5], tokens[5:65], tokens[65:66], tokens[66:200], *np.split(tokens[200:], 64)]
    our_error = np.abs(runs.logits_of(ours, pieces)[200:] - truth[200:]).max()
    assert our_error <= 3 * np.abs(decoded - truth[200:]).max() + 1e-5
