"""Cached keys and values as they are stored: float32, or bfloat16 in a uint16 array.

The element type is read off the array, so that a kernel is written once and compiled for either.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from qanat.backends.cpu.simd.memory import narrow, pointer, widen
from qanat.backends.cpu.simd.types import FLOAT, INT16, INT32, f32x16, vector_of

__all__ = ["load_stored", "put_stored", "store_stored"]


def _element(array: Any) -> ir.Type:
    return INT16 if array.dtype == types.uint16 else FLOAT


@intrinsic
def load_stored(typing_context: Any, array: Any, index: Any) -> Any:
    """16 values as float32."""
    element = _element(array)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = builder.load(pointer(context, builder, sig.args[0], args[0], args[1], vector_of(element)))
        value.align = 1
        return widen(builder, value) if element is INT16 else value

    return f32x16(array, types.intp), generate


@intrinsic
def store_stored(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write 16 float32 values, rounded if the array holds bfloat16."""
    element = _element(array)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = pointer(context, builder, sig.args[0], args[0], args[1], vector_of(element))
        builder.store(narrow(builder, args[2]) if element is INT16 else args[2], at).align = 1
        return context.get_dummy_value()

    return types.void(array, types.intp, f32x16), generate


@intrinsic
def put_stored(typing_context: Any, array: Any, index: Any, vector: Any, lane: Any) -> Any:
    """Write one lane, rounded if the array holds bfloat16."""
    element = _element(array)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = pointer(context, builder, sig.args[0], args[0], args[1], element)
        values = narrow(builder, args[2]) if element is INT16 else args[2]
        builder.store(builder.extract_element(values, builder.trunc(args[3], INT32)), at)
        return context.get_dummy_value()

    return types.void(array, types.intp, f32x16, types.intp), generate
