"""A step as a list of instructions: what its operations are, without the Python between them.

`run_int8` and `run_bf16` (`kernels`) go through a tape from top to bottom, all threads together. Whatever
differs between two steps with the same form of batch is not on the tape: it comes in a `Step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.kernels import operations
from qanat.backends.cpu.kernels.operands import WIDTH
from qanat.backends.cpu.kernels.run_bf16 import run_bf16
from qanat.backends.cpu.kernels.run_int8 import run_int8
from qanat.backends.cpu.kernels.sync import APART
from qanat.backends.cpu.pool import Pool
from qanat.backends.cpu.step import Step

__all__ = ["Operation", "Runner", "Tape"]

Operand = NDArray[Any] | np.float32 | int
SMALL = 4_000_000
"""Products that one thread has computed by the time another is awake (about 50 us)."""
KERNELS = {"int8": run_int8, "bf16": run_bf16}


class Operation(IntEnum):
    """What an instruction does; the kernels that run a tape list the operands."""

    EMBED = operations.EMBED
    NORM = operations.NORM
    QUANTISE = operations.QUANTISE
    SWIGLU = operations.SWIGLU
    LINEAR = operations.LINEAR
    DELTA = operations.DELTA
    ATTENTION = operations.ATTENTION


class Tape:
    """Instructions; keeps their arrays alive.

    Attributes:
        products: of weights and activations, in all linear layers: a measure of the work.
    """

    def __init__(self) -> None:
        self.products = 0
        self._rows: list[list[int]] = []
        self._kept: list[NDArray[Any]] = []
        self._code: NDArray[np.int64] | None = None
        self._sync = np.zeros(0, np.int64)

    def add(self, operation: Operation, *operands: Operand) -> None:
        """Append an instruction. Arrays must be contiguous."""
        row = [int(operation)]
        for operand in operands:
            row += self._columns(operand)
        assert len(row) <= WIDTH
        self._rows.append(row + [0] * (WIDTH - len(row)))
        self._code = None

    def code(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The instructions [n, WIDTH], and the counters that threads share, zeroed."""
        if self._code is None:
            self._code = np.array(self._rows, np.int64).reshape(-1, WIDTH)
            self._sync = np.zeros((len(self._rows) + 1) * APART, np.int64)
        self._sync.fill(0)
        return self._code, self._sync

    def _columns(self, operand: Operand) -> Sequence[int]:
        if isinstance(operand, np.ndarray):
            assert operand.flags.c_contiguous
            self._kept.append(operand)
            return operand.ctypes.data, operand.size
        if isinstance(operand, np.float32):
            return (int(operand.view(np.int32)),)
        return (operand,)


class Runner:
    """Runs tapes.

    Args:
        weights: "int8" or "bf16".
        threads: how many run them; no result depends on it.
    """

    def __init__(self, weights: str, threads: int) -> None:
        self._alone, self._pool = Pool(1), Pool(threads)
        self._kernel = KERNELS[weights]

    def pool(self, tape: Tape) -> Pool:
        """The threads for a tape: waking others does not pay for a moment's work."""
        return self._pool if tape.products > SMALL else self._alone

    def run(self, tape: Tape, step: Step) -> None:
        """Run all instructions; the step is planned for the threads of `pool`."""
        self._pool.wait()  # a thread may still be on its way out of the last step, where it looks at counters
        self.pool(tape).begin(self._kernel, *tape.code(), *step)
