"""The held-out loss: one number for one seed, small for a trained model, hardly moved by bfloat16."""

from __future__ import annotations

import pytest

pytest.importorskip("tokenizers", reason="the corpus is encoded with Hugging Face's tokenizers")

from tools.pocket.held_out_loss import held_out_loss


def test_the_built_in_model_has_a_small_loss_that_bfloat16_hardly_moves() -> None:
    loss = held_out_loss("pocket", 3, 7)
    assert loss == held_out_loss("pocket", 3, 7)
    assert loss != held_out_loss("pocket", 3, 8)
    assert 0 < loss < 2  # an untrained one: the logarithm of the vocabulary, about 7
    assert abs(held_out_loss("pocket", 3, 7, weights="bf16") - loss) < 0.05
