"""Muon in float32: momentum whose matrix is made orthogonal before each step.

After Keller Jordan's description (kellerjordan.github.io/posts/muon, 2024). torch has a Muon of its own, but
it works in bfloat16, which processors without bfloat16 instructions do 20 times slower; and it takes
matrices one by one, where this one takes all of the same shape together. Of several processes with the same
gradients each makes a share of the matrices orthogonal and gets the others' from them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch

from .parallel import Exchange, alone

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic iteration, from the same source
ITERATIONS = 5


def orthogonalised(matrices: torch.Tensor) -> torch.Tensor:
    """Push all singular values of each of the [n, rows, columns] matrices to about one."""
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.transpose(1, 2) if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.transpose(1, 2)  # [n, small, small]
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised, scaled to the size of an AdamW step; decoupled weight decay."""

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.05,
        exchange: Exchange | None = None,
    ) -> None:
        self.exchange = exchange or alone()
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of every matrix."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[torch.nn.Parameter]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    by_shape[p.shape].append(p)
            directions = {
                shape: self._directions(params, group["momentum"]) for shape, params in by_shape.items()
            }
            updates = self._orthogonalised(directions)
            for shape, params in by_shape.items():
                scale = 0.2 * math.sqrt(max(shape)) * group["lr"]  # the root mean square of an AdamW step
                for p, update in zip(params, updates[shape], strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=scale)

    def _directions(self, params: list[torch.nn.Parameter], momentum: float) -> torch.Tensor:
        directions = []
        for p in params:
            assert p.grad is not None
            memory = self.state[p].setdefault("momentum", torch.zeros_like(p))
            memory.lerp_(p.grad, 1 - momentum)
            directions.append(p.grad.lerp(memory, momentum))
        return torch.stack(directions)

    def _orthogonalised(self, directions: dict[torch.Size, torch.Tensor]) -> dict[torch.Size, torch.Tensor]:
        """Every stack of matrices made orthogonal, each process doing an equal share of it."""
        rank, processes = self.exchange.rank, self.exchange.processes
        mine = {}
        for shape, stack in directions.items():
            share = -(-len(stack) // processes)
            part = stack.new_zeros(share, *shape)
            own = stack[rank * share : (rank + 1) * share]
            part[: len(own)] = orthogonalised(own)
            mine[shape] = part
        if processes == 1:
            return mine
        flat = self.exchange.gather(torch.cat([part.flatten() for part in mine.values()]))
        parts = flat.split([part.numel() for part in mine.values()], dim=1)
        return {
            shape: part.reshape(-1, *shape)[: len(directions[shape])]
            for part, shape in zip(parts, mine, strict=True)
        }
