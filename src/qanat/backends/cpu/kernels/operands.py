"""Arrays by their address: how an instruction of a tape names what it reads and writes.

A tape is an int64 array [instructions, WIDTH]. Column 0 is the operation, what follows are its operands:
an array takes two columns, the address of its first element and how many there are; a whole number one; a
float32 one, as its bits. Who writes a tape keeps the arrays alive (`qanat.backends.cpu.tape`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray
from numba.core import types
from numba.extending import intrinsic

from qanat.backends.cpu.kernels.jit import inlined
from qanat.backends.cpu.simd.dot import ACTIVATION

__all__ = ["WIDTH", "activations", "f32", "i8", "i32", "number", "u16"]

WIDTH = 32
"""Columns of a tape: the operation and the longest list of operands."""


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@intrinsic
def _bits(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(builder.trunc(args[0], ir.IntType(32)), ir.FloatType())

    return types.float32(types.int64), generate


@inlined
def f32(tape, i, column):
    """A flat float32 array."""
    return carray(_pointer(tape[i, column]), (tape[i, column + 1],), np.float32)


@inlined
def i8(tape, i, column):
    """A flat int8 array."""
    return carray(_pointer(tape[i, column]), (tape[i, column + 1],), np.int8)


@inlined
def i32(tape, i, column):
    """A flat int32 array."""
    return carray(_pointer(tape[i, column]), (tape[i, column + 1],), np.int32)


@inlined
def activations(tape, i, column):
    """A flat array of quantised activations."""
    return carray(_pointer(tape[i, column]), (tape[i, column + 1],), ACTIVATION)


@inlined
def u16(tape, i, column):
    """A flat uint16 array."""
    return carray(_pointer(tape[i, column]), (tape[i, column + 1],), np.uint16)


@inlined
def number(tape, i, column):
    """A float32."""
    return _bits(tape[i, column])
