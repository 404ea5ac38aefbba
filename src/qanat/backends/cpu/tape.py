"""A step as a list of instructions: what the operations of a step are, without the Python between them.

`run_int8` and `run_bf16` (`kernels`) go through a tape from top to bottom, all threads together. Everything
that changes from step to step with the same form of batch is not on the tape: it comes in a `Step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.kernels import operations
from qanat.backends.cpu.kernels.operands import WIDTH
from qanat.backends.cpu.kernels.sync import APART

__all__ = ["Operation", "Step", "Tape"]

I32 = NDArray[np.int32]
F32 = NDArray[np.float32]
Operand = NDArray[Any] | np.float32 | int


class Operation(IntEnum):
    """What an instruction does; its operands, in order, are those of the kernel of that name."""

    EMBED = operations.EMBED
    NORM = operations.NORM
    QUANTISE = operations.QUANTISE
    SWIGLU = operations.SWIGLU
    LINEAR = operations.LINEAR
    DELTA = operations.DELTA
    ATTENTION = operations.ATTENTION


@dataclass(frozen=True)
class Step:
    """What a step has for itself. All arrays are contiguous; empty where no instruction looks."""

    tokens: I32  # [N]
    output_rows: I32  # [M]
    starts: I32  # [B + 1]
    cache_len: I32  # [B]
    pages: I32  # [B, P]
    src: I32  # [B]
    dst: I32  # [B]
    cos: F32  # [N * rotary_dim / 2]
    sin: F32
    plan: NDArray[np.int64]  # of attention, [groups + 1, 8]
    flags: NDArray[np.int64]  # [whether the delta rule takes one phase, whether attention merges parts]
    work: F32  # scratch of the mixers

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """In the order of the kernels' arguments."""
        return (
            self.tokens, self.output_rows, self.starts, self.cache_len, self.pages, self.src, self.dst,
            self.cos, self.sin, self.plan, self.flags, self.work,
        )  # fmt: skip


class Tape:
    """Instructions in the making, and what keeps their arrays alive."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []
        self._kept: list[Any] = []

    def add(self, operation: Operation, *operands: Operand) -> None:
        """Append an instruction. Arrays must be contiguous; they are kept until the tape goes."""
        row = [int(operation)]
        for operand in operands:
            row += self._columns(operand)
        assert len(row) <= WIDTH
        self._rows.append(row + [0] * (WIDTH - len(row)))

    def finish(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Sequence[Any]]:
        """The instructions [n, WIDTH], the zeroed counters that threads share, and what to keep."""
        code = np.array(self._rows, np.int64).reshape(-1, WIDTH)
        return code, np.zeros((len(code) + 1) * APART, np.int64), self._kept

    def _columns(self, operand: Operand) -> list[int]:
        if isinstance(operand, np.ndarray):
            assert operand.flags.c_contiguous
            self._kept.append(operand)
            return [operand.ctypes.data, operand.size]
        if isinstance(operand, np.float32):
            return [int(operand.view(np.int32))]
        return [operand]
