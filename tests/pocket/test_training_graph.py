"""The graph that trains the built-in model is transformers' own: the same loss, the same gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.parity
torch = pytest.importorskip("torch", reason="the built-in model is trained with torch")
transformers = pytest.importorskip("transformers", reason="compares with transformers")
pytest.importorskip("numba", reason="the training kernels are compiled by Numba")

from tools.pocket import graph, kernels, mtp, shape  # noqa: E402
from tools.pocket.data import Batch  # noqa: E402

VARIANTS = [(3, 67), (2, 32), (1, 5)]  # rows, length: on and off the border of a chunk


@pytest.fixture(scope="module")
def model() -> Any:
    """Weights away from their start, where norms are zero and biases alike."""
    made = shape.fresh_model(3)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.05 * torch.randn(p.shape, generator=generator))
    return made


def batch_of(rows: int, length: int, pad: int = 0) -> Batch:
    rng = np.random.default_rng(rows * length)
    ids = rng.integers(0, shape.VOCAB_SIZE, (rows, length))
    learnt = rng.random((rows, length)) < 0.4
    learnt[:, -1] = True
    ids, learnt = np.pad(ids, ((0, 0), (0, pad))), np.pad(learnt, ((0, 0), (0, pad)))
    return Batch(ids.astype(np.int64), learnt)


def gradients(loss: Any, weights: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))


@pytest.mark.parametrize(("rows", "length"), VARIANTS)
def test_loss_and_gradients_are_those_of_transformers(model: Any, rows: int, length: int) -> None:
    batch, weights = batch_of(rows, length), dict(model.named_parameters())
    logits = model(input_ids=torch.from_numpy(batch.ids), use_cache=False).logits
    wanted = batch.learnt[:, 1:]
    theirs = torch.nn.functional.cross_entropy(
        logits[:, :-1][wanted], torch.from_numpy(batch.ids[:, 1:][wanted])
    )
    ours, count = graph.loss_of(weights, batch)
    assert count == wanted.sum()
    assert abs(ours.item() - theirs.item()) < 1e-5
    judge = gradients(theirs, weights)
    for name, gradient in gradients(ours, weights).items():
        assert (gradient - judge[name]).norm() <= 1e-4 * judge[name].norm(), name


def test_padding_on_the_right_changes_nothing(model: Any) -> None:
    weights = dict(model.named_parameters())
    bare, padded = (graph.loss_of(weights, batch_of(2, 40, pad))[0].item() for pad in (0, 24))
    assert abs(bare - padded) < 1e-6


def test_the_vectorised_exponential_is_within_two_units_in_the_last_place() -> None:
    x = np.linspace(-86, 86, 200_000).astype(np.float32)  # without zero
    ours = np.empty((1, 2 * len(x)), np.float32)
    gate_up = np.concatenate([x, np.ones_like(x)])[None]
    kernels.swiglu_forward(gate_up, ours[:, : len(x)])
    truth = x / (1 + np.exp(-x.astype(np.float64)))
    assert np.abs(ours[0, : len(x)] / truth - 1).max() < 4 * np.finfo(np.float32).eps


def test_the_draft_layer_learns_two_tokens_ahead_without_looking_further(model: Any) -> None:
    trunk = {name: p.detach() for name, p in model.named_parameters()}
    layer = mtp.fresh_mtp(1)
    ids = torch.from_numpy(batch_of(2, 40).ids)
    changed = ids.clone()
    changed[:, 21] = (changed[:, 21] + 1) % shape.VOCAB_SIZE
    rows = [
        mtp.draft_rows(trunk, layer, x, graph.final_rows(trunk, x)).view(2, 39, -1) for x in (ids, changed)
    ]
    assert torch.equal(rows[0][:, :20], rows[1][:, :20])  # slot 19 has seen token 20 and predicts token 21
    assert not torch.equal(rows[0][:, 20], rows[1][:, 20])


def test_the_draft_layer_gets_the_gradients_of_finite_differences(model: Any) -> None:
    trunk = {name: p.detach() for name, p in model.named_parameters()}
    layer, batch = mtp.fresh_mtp(2), batch_of(2, 12)
    found = gradients(mtp.mtp_loss_of(trunk, layer, batch)[0], layer)
    generator = torch.Generator().manual_seed(5)
    for name, p in layer.items():
        way = torch.randn(p.shape, generator=generator)
        way *= 0.02 / way.norm()
        with torch.no_grad():
            up = mtp.mtp_loss_of(trunk, {**layer, name: p + way}, batch)[0].item()
            down = mtp.mtp_loss_of(trunk, {**layer, name: p - way}, batch)[0].item()
        slope = float((found[name] * way).sum())
        assert abs((up - down) / 2 - slope) <= 0.02 * 0.02 * float(found[name].norm()) + 2e-6, name
