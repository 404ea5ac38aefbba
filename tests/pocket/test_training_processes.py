"""Training in several processes: every one ends up with the same weights, those of one larger batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytestmark = pytest.mark.parity
torch = pytest.importorskip("torch", reason="the built-in model is trained with torch")
pytest.importorskip("transformers", reason="the built-in model starts from transformers' graph")
pytest.importorskip("numba", reason="the training kernels are compiled by Numba")

from tools.pocket.muon import Muon  # noqa: E402
from tools.pocket.parallel import Exchange, alone  # noqa: E402
from tools.pocket.train import exchange_gradients  # noqa: E402

SHAPES = [(8, 16), (8, 16), (16, 8), (8, 16), (4, 4)]
NUMBERS = 1000


def together(work: Callable[[Exchange], Any], processes: int) -> list[Any]:
    """The results of `work` in so many ranks; threads stand in for the processes."""
    buffer, barrier = torch.zeros(2, processes, NUMBERS), threading.Barrier(processes)
    ends = [Exchange(rank, processes, buffer, barrier) for rank in range(processes)]
    with ThreadPoolExecutor(processes) as pool:
        return list(pool.map(work, ends))


def params() -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def three_muon_steps(exchange: Exchange) -> list[Any]:
    made, generator = params(), torch.Generator().manual_seed(2)
    optimiser = Muon(made, lr=0.01, exchange=exchange)
    for _ in range(3):
        for p in made:
            p.grad = torch.randn(p.shape, generator=generator)
        optimiser.step()
    return [p.detach() for p in made]


@pytest.mark.parametrize("processes", [2, 3])
def test_sharing_out_the_matrices_changes_no_update(processes: int) -> None:
    whole = three_muon_steps(alone())
    for shared in together(three_muon_steps, processes):
        for one, other in zip(whole, shared, strict=True):
            torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6)


def test_gradients_are_averaged_over_learnt_tokens() -> None:
    learnt, losses = [30, 10], [2.0, 4.0]

    def step(exchange: Exchange) -> Any:
        made = params()
        for p in made:
            p.grad = torch.full_like(p, float(exchange.rank + 1))
        rank = exchange.rank
        shared = exchange_gradients(exchange, made, 0.25 * (rank + 1), 100, learnt[rank], losses[rank])
        return shared, [p.grad for p in made]

    (first, first_grads), (second, second_grads) = together(step, 2)
    assert first == second
    assert (first.progress, first.tokens, first.learnt, first.loss) == (0.25, 200, 40, 2.5)
    for one, other in zip(first_grads, second_grads, strict=True):
        assert torch.equal(one, torch.full_like(one, 1.25))
        assert torch.equal(one, other)


def test_a_gathering_is_in_the_order_of_ranks() -> None:
    def work(exchange: Exchange) -> list[list[float]]:
        found = []
        for turn in range(50):
            found.append(exchange.gather(torch.tensor([10.0 * turn + exchange.rank])).flatten().tolist())
        return found

    expected = [[10.0 * turn, 10.0 * turn + 1] for turn in range(50)]
    assert together(work, 2) == [expected, expected]
