"""Programs: the tapes of whole steps, one for each form of batch, and the memory that they work in.

Memory for activations goes by roles. A role's content is used up before the same role is written again, as
in the model each operation's output is read by the next ones only; so a step of any number of layers works
in a dozen buffers, and all programs in the same ones.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.linear import Quantised
from qanat.backends.cpu.packing import Packed
from qanat.backends.cpu.step import AttentionLayout, DeltaLayout
from qanat.backends.cpu.tape import Tape

__all__ = ["Program", "Programs"]

F32 = NDArray[np.float32]
Form = tuple[int, int]
"""Rows and output rows of a batch: all that a tape depends on."""
KEPT = 64
"""Programs that are kept, the most recently used ones. Writing one takes milliseconds."""
STREAMS = "stream", "other stream"


@dataclass
class Program:
    """Instructions, and what they have in common."""

    memory: dict[Any, Any]
    """Buffers by role, shared with other programs; a program for one operation brings an empty one."""
    tape: Tape = field(default_factory=Tape)
    delta: DeltaLayout | None = None
    attention: AttentionLayout | None = None
    table: Packed | None = None
    """The embedding that tokens are looked up in."""
    output: Any = None
    outgrown: bool = False
    """Whether a buffer was replaced by a larger one."""

    def room(self, role: str, rows: int, width: int) -> F32:
        """Uninitialised float32 [rows, width]."""
        held = self.memory.get(role)
        if held is None or held.size < rows * width:
            self.outgrown |= held is not None
            held = self.memory[role] = np.empty(rows * width, np.float32)
        return held[: rows * width].reshape(rows, width)

    def stream(self, rows: int, width: int) -> F32:
        """Room for the residual stream."""
        return self.room(STREAMS[0], rows, width)

    def stream_beside(self, residual: F32) -> F32:
        """Room like `residual`, and another."""
        held = self.memory.get(STREAMS[0])
        first = held is None or not np.may_share_memory(held, residual)
        return self.room(STREAMS[0 if first else 1], *residual.shape)

    def quantised(self, rows: int, width: int) -> Quantised:
        """Room for quantised rows."""
        held = self.memory.get(width)
        if held is None or held.capacity < rows:
            self.outgrown |= held is not None
            held = self.memory[width] = Quantised.empty(rows, width)
        return held

    def layout_delta(self, layout: DeltaLayout) -> None:
        """Say how gated-delta layers are laid out; all alike."""
        assert self.delta in (None, layout), "layers of one model differ in shape"
        self.delta = self.delta or layout

    def layout_attention(self, layout: AttentionLayout) -> None:
        """The same for gated attention."""
        assert self.attention in (None, layout), "layers of one model differ in shape"
        self.attention = self.attention or layout


class Programs:
    """The programs of one model and state."""

    def __init__(self) -> None:
        self._state: Any = None
        self._memory: dict[Any, Any] = {}
        self._held: OrderedDict[Form, Program] = OrderedDict()

    def find(self, state: Any, form: Form | None) -> Program | None:
        """The program for batches of this form; None if there is none yet. Another state forgets all."""
        if self._state is not state:
            self._held.clear()
            self._state = state
        if form is None or form not in self._held:
            return None
        self._held.move_to_end(form)
        return self._held[form]

    def new(self) -> Program:
        """To be written."""
        return Program(self._memory)

    def keep(self, form: Form | None, program: Program) -> None:
        """Keep a program that has been written, unless it has no form that could come again."""
        if program.outgrown:  # those written before would keep the smaller buffers beside the larger ones
            self._held.clear()
        if form is None:
            return
        self._held[form] = program
        if len(self._held) > KEPT:
            self._held.popitem(last=False)
