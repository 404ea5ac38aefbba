"""The last few elements of a row whose length is no multiple of sixteen, and single elements."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from qanat.backends.cpu.simd.memory import constant, pointer, spread
from qanat.backends.cpu.simd.types import FLOAT, INT32, LANES, f32x16, vector_of

__all__ = ["keep_first", "load_first", "splat_at", "store_first"]

_BITS = ir.VectorType(ir.IntType(1), LANES)


def _first(builder: Any, count: Any) -> Any:
    """Lanes below `count`, as a mask."""
    lanes = ir.Constant(vector_of(INT32), list(range(LANES)))
    return builder.icmp_signed("<", lanes, spread(builder, builder.trunc(count, INT32)))


@intrinsic
def load_first(typing_context: Any, array: Any, index: Any, count: Any) -> Any:
    """`count` float32 values, then zeros; nothing behind them is touched."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = vector_of(FLOAT)
        at = pointer(context, builder, sig.args[0], args[0], args[1], vector)
        kind = ir.FunctionType(vector, [at.type, INT32, _BITS, vector])
        load = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.load.v16f32.p0")
        mask = _first(builder, args[2])
        return builder.call(load, [at, ir.Constant(INT32, 4), mask, constant(FLOAT, 0.0)])

    return f32x16(array, types.intp, types.intp), generate


@intrinsic
def store_first(typing_context: Any, array: Any, index: Any, vector: Any, count: Any) -> Any:
    """Write the first `count` float32 values."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = pointer(context, builder, sig.args[0], args[0], args[1], vector_of(FLOAT))
        kind = ir.FunctionType(ir.VoidType(), [vector_of(FLOAT), at.type, INT32, _BITS])
        store = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.store.v16f32.p0")
        builder.call(store, [args[2], at, ir.Constant(INT32, 4), _first(builder, args[3])])
        return context.get_dummy_value()

    return types.void(array, types.intp, f32x16, types.intp), generate


@intrinsic
def keep_first(typing_context: Any, vector: Any, other: Any, count: Any) -> Any:
    """The first `count` lanes of `vector`, the rest from `other`."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(_first(builder, args[2]), args[0], args[1])

    return f32x16(f32x16, f32x16, types.intp), generate


@intrinsic
def splat_at(typing_context: Any, array: Any, index: Any) -> Any:
    """One float32 of a flat array in all lanes."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return spread(builder, builder.load(pointer(context, builder, sig.args[0], args[0], args[1], FLOAT)))

    return f32x16(array, types.intp), generate
