"""Reading and writing vectors: float32, bfloat16 (held as uint16), int8 in fours, int32.

`index` counts elements of the flat array. No bounds are checked and no alignment is assumed: the caller owns
both. bfloat16 is the upper half of a float32: reading is exact, writing rounds to nearest, ties to even.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from qanat.backends.cpu.simd.types import FLOAT, INT16, INT32, LANES, f32x16, i32x16, vector_of

__all__ = [
    "load_bf16",
    "load_bytes",
    "load_f32",
    "load_i32",
    "prefetch",
    "splat_bf16",
    "splat_bytes",
    "splat_f32",
    "splat_i32",
    "store_bf16",
    "store_f32",
    "store_i32",
]


def pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any, to: ir.Type) -> Any:
    """Address of element `index` of a flat array, as a pointer to `to`."""
    data = cgutils.create_struct_proxy(array_type)(context, builder, value=array).data
    return builder.bitcast(builder.gep(data, [index]), to.as_pointer())


def constant(element: ir.Type, value: float) -> ir.Constant:
    """The same value in all lanes."""
    return ir.Constant(vector_of(element), [value] * LANES)


def spread(builder: Any, scalar: Any) -> Any:
    """A scalar in all lanes."""
    kind = vector_of(scalar.type)
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, scalar, ir.Constant(INT32, 0))
    return builder.shuffle_vector(first, nothing, constant(INT32, 0))


def _loader(result: Any, stored: ir.Type, name: str, doc: str) -> Any:
    """An intrinsic (array, index) -> vector that reads LANES elements of LLVM type `stored`."""

    def load(typing_context: Any, array: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            at = pointer(context, builder, sig.args[0], args[0], args[1], vector_of(stored))
            value = builder.load(at)
            value.align = 1
            return widen(builder, value) if stored is INT16 else value

        return result(array, types.intp), generate

    load.__name__, load.__doc__ = name, doc
    return intrinsic(load)


def widen(builder: Any, halves: Any) -> Any:
    """bfloat16 bits in 16-bit lanes as float32 lanes."""
    words = builder.zext(halves, vector_of(INT32))
    return builder.bitcast(builder.shl(words, constant(INT32, 16)), vector_of(FLOAT))


def narrow(builder: Any, value: Any) -> Any:
    """float32 lanes rounded to bfloat16 bits in 16-bit lanes (nearest, ties to even; NaN stays NaN)."""
    bits = builder.bitcast(value, vector_of(INT32))
    odd = builder.and_(builder.lshr(bits, constant(INT32, 16)), constant(INT32, 1))
    rounded = builder.add(bits, builder.add(odd, constant(INT32, 0x7FFF)))
    quiet = builder.or_(bits, constant(INT32, 0x400000))
    nan = builder.fcmp_unordered("uno", value, value)
    chosen = builder.select(nan, quiet, rounded)
    return builder.trunc(builder.lshr(chosen, constant(INT32, 16)), vector_of(INT16))


load_f32 = _loader(f32x16, FLOAT, "load_f32", "16 float32 values.")
load_i32 = _loader(i32x16, INT32, "load_i32", "16 int32 values.")
load_bf16 = _loader(f32x16, INT16, "load_bf16", "16 bfloat16 values (a uint16 array) as float32.")
load_bytes = _loader(i32x16, INT32, "load_bytes", "64 bytes of an int8 array: four to a lane.")


def _splat_loader(result: Any, stored: ir.Type, name: str, doc: str) -> Any:
    """An intrinsic (array, index) -> vector with one element of LLVM type `stored` in all lanes."""

    def splat(typing_context: Any, array: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = builder.load(pointer(context, builder, sig.args[0], args[0], args[1], stored))
            value.align = 1
            if stored is INT16:
                word = builder.shl(builder.zext(value, INT32), ir.Constant(INT32, 16))
                value = builder.bitcast(word, FLOAT)
            return spread(builder, value)

        return result(array, types.intp), generate

    splat.__name__, splat.__doc__ = name, doc
    return intrinsic(splat)


splat_bytes = _splat_loader(i32x16, INT32, "splat_bytes", "Four bytes of an int8 array, in all lanes.")
splat_bf16 = _splat_loader(f32x16, INT16, "splat_bf16", "One bfloat16 value of a uint16 array, in all lanes.")


@intrinsic
def splat_f32(typing_context: Any, value: Any) -> Any:
    """A float32 scalar in all lanes."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return spread(builder, args[0])

    return f32x16(types.float32), generate


@intrinsic
def splat_i32(typing_context: Any, value: Any) -> Any:
    """An int32 scalar in all lanes."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return spread(builder, args[0])

    return i32x16(types.int32), generate


def _storer(taken: Any, stored: ir.Type, name: str, doc: str) -> Any:
    """An intrinsic (array, index, vector) that writes LANES elements."""

    def store(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            at = pointer(context, builder, sig.args[0], args[0], args[1], vector_of(stored))
            value = narrow(builder, args[2]) if stored is INT16 else args[2]
            builder.store(value, at).align = 1
            return context.get_dummy_value()

        return types.void(array, types.intp, taken), generate

    store.__name__, store.__doc__ = name, doc
    return intrinsic(store)


store_f32 = _storer(f32x16, FLOAT, "store_f32", "Write 16 float32 values.")
store_i32 = _storer(i32x16, INT32, "store_i32", "Write 16 int32 values.")
store_bf16 = _storer(f32x16, INT16, "store_bf16", "Write 16 values rounded to bfloat16, to a uint16 array.")


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line that holds element `index`; never faults, changes no value."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = pointer(context, builder, sig.args[0], args[0], args[1], ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [at.type, INT32, INT32, INT32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [at, *(ir.Constant(INT32, n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
