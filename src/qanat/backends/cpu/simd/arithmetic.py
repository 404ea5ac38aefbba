"""What the operators do not say: fused multiply-add, minima and maxima, conversions, sums over lanes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from qanat.backends.cpu.simd.memory import constant
from qanat.backends.cpu.simd.types import FLOAT, INT32, LANES, f32x16, i32x16, vector_of

__all__ = [
    "as_f32",
    "as_i32",
    "fma",
    "lane_max",
    "lane_max_i32",
    "lane_sum",
    "max_i32",
    "round_to_i32",
    "sqrt",
    "to_f32",
    "vmax",
    "vmin",
    "zero_f32",
    "zero_i32",
]

_F, _I = vector_of(FLOAT), vector_of(INT32)


def _call(builder: Any, name: str, result: ir.Type, args: list[Any]) -> Any:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


@intrinsic
def zero_f32(typing_context: Any) -> Any:
    """Sixteen zeros."""
    return f32x16(), lambda context, builder, sig, args: constant(FLOAT, 0.0)


@intrinsic
def zero_i32(typing_context: Any) -> Any:
    """Sixteen zeros."""
    return i32x16(), lambda context, builder, sig, args: constant(INT32, 0)


@intrinsic
def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once (IEEE 754 fusedMultiplyAdd)."""
    return (
        f32x16(f32x16, f32x16, f32x16),
        lambda context, builder, sig, args: _call(builder, "llvm.fma.v16f32", _F, list(args)),
    )


@intrinsic
def sqrt(typing_context: Any, a: Any) -> Any:
    """Square root of each lane, correctly rounded."""
    return (
        f32x16(f32x16),
        lambda context, builder, sig, args: _call(builder, "llvm.sqrt.v16f32", _F, list(args)),
    )


@intrinsic
def vmax(typing_context: Any, a: Any, b: Any) -> Any:
    """The larger of each lane: a if a > b, else b (so a NaN in a gives b)."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return f32x16(f32x16, f32x16), generate


@intrinsic
def vmin(typing_context: Any, a: Any, b: Any) -> Any:
    """The smaller of each lane: a if a < b, else b (so a NaN in a gives b)."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return f32x16(f32x16, f32x16), generate


@intrinsic
def max_i32(typing_context: Any, a: Any, b: Any) -> Any:
    """The larger of each lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.icmp_signed(">", *args), *args)

    return i32x16(i32x16, i32x16), generate


@intrinsic
def to_f32(typing_context: Any, a: Any) -> Any:
    """int32 lanes as float32 (nearest, ties to even)."""
    return i32x16_to_f32, lambda context, builder, sig, args: builder.sitofp(args[0], _F)


i32x16_to_f32 = f32x16(i32x16)


@intrinsic
def round_to_i32(typing_context: Any, a: Any) -> Any:
    """float32 lanes to the nearest int32, ties to even; values beyond int32 are undefined."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.fptosi(_call(builder, "llvm.rint.v16f32", _F, list(args)), _I)

    return i32x16(f32x16), generate


@intrinsic
def as_i32(typing_context: Any, a: Any) -> Any:
    """The bits of float32 lanes as int32."""
    return i32x16(f32x16), lambda context, builder, sig, args: builder.bitcast(args[0], _I)


@intrinsic
def as_f32(typing_context: Any, a: Any) -> Any:
    """int32 lanes taken for the bits of float32."""
    return f32x16(i32x16), lambda context, builder, sig, args: builder.bitcast(args[0], _F)


def _halved(builder: Any, value: Any, lanes: int, combine: Any) -> Any:
    """Combine lane i with lane i + lanes / 2, until one is left: the fixed tree of every sum over lanes."""
    while lanes > 1:
        lanes //= 2
        low = ir.Constant(ir.VectorType(INT32, lanes), list(range(lanes)))
        high = ir.Constant(ir.VectorType(INT32, lanes), list(range(lanes, 2 * lanes)))
        nothing = ir.Constant(value.type, ir.Undefined)
        value = combine(
            builder.shuffle_vector(value, nothing, low), builder.shuffle_vector(value, nothing, high)
        )
    return builder.extract_element(value, ir.Constant(INT32, 0))


@intrinsic
def lane_sum(typing_context: Any, a: Any) -> Any:
    """Sum of the lanes in a fixed tree: halves are added until one lane is left."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _halved(builder, args[0], LANES, builder.fadd)

    return types.float32(f32x16), generate


@intrinsic
def lane_max(typing_context: Any, a: Any) -> Any:
    """The largest lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def larger(x: Any, y: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", x, y), x, y)

        return _halved(builder, args[0], LANES, larger)

    return types.float32(f32x16), generate


@intrinsic
def lane_max_i32(typing_context: Any, a: Any) -> Any:
    """The largest lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def larger(x: Any, y: Any) -> Any:
            return builder.select(builder.icmp_signed(">", x, y), x, y)

        return _halved(builder, args[0], LANES, larger)

    return types.int32(i32x16), generate
