"""Several training processes on one machine that agree on every step, through shared memory.

Each process computes something of its own and `Exchange.gather` shows it to all of them, in the order of
ranks. So all compute the same from it, and a run depends on the seed and the number of processes alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from typing import Any

import torch
import torch.multiprocessing

PATIENCE = 600.0  # seconds to wait for the other processes before calling them lost


@dataclass
class Exchange:
    """One process's end; `buffer` [2, processes, numbers] float32 is shared by all of them.

    The two halves alternate, so that nobody overwrites what a slower process still reads.
    """

    rank: int
    processes: int
    buffer: torch.Tensor
    barrier: Barrier | None
    turn: int = field(default=0)

    def gather(self, numbers: torch.Tensor) -> torch.Tensor:
        """Every process's `numbers` (flat, as many in each): [processes, n], valid until the next call."""
        if self.barrier is None:
            return numbers[None]
        self.turn ^= 1
        half = self.buffer[self.turn]
        half[self.rank, : numbers.numel()] = numbers
        self.barrier.wait(PATIENCE)
        return half[:, : numbers.numel()]


def alone() -> Exchange:
    """For one process: it gathers only its own numbers."""
    return Exchange(0, 1, torch.empty(2, 1, 0), None)


def run(processes: int, numbers: int, work: Callable[..., None], *args: Any) -> None:
    """Call `work(exchange, *args)` in this and `processes - 1` further processes, one thread each."""
    context = torch.multiprocessing.get_context("spawn")
    buffer = torch.zeros(2, processes, numbers).share_memory_()
    barrier = context.Barrier(processes) if processes > 1 else None
    others = [
        context.Process(target=_in_child, args=(work, Exchange(rank, processes, buffer, barrier), *args))
        for rank in range(1, processes)
    ]
    for process in others:
        process.start()
    try:
        work(Exchange(0, processes, buffer, barrier), *args)
    except BaseException:
        if barrier is not None:
            barrier.abort()  # lets the others end too
        raise
    finally:
        for process in others:
            process.join()


def _in_child(work: Callable[..., None], exchange: Exchange, *args: Any) -> None:
    torch.set_num_threads(1)
    try:
        work(exchange, *args)
    except BaseException:
        if exchange.barrier is not None:
            exchange.barrier.abort()
        raise
