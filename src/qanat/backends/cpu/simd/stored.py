"""Cached keys and values as they are stored: float32, or bfloat16 in a uint16 array.

The element type is read off the array, so that a kernel is written once and compiled for either. Sixteen
bfloat16 numbers become two registers of float32 most cheaply as eight words, shifted or masked: the even
numbers and the odd ones. So the vectors that `fma_stored` makes have the even lanes before the odd ones, and
`in_order` puts them right at the end.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from qanat.backends.cpu.simd.arithmetic import _call
from qanat.backends.cpu.simd.features import INSTRUCTION_SET
from qanat.backends.cpu.simd.memory import narrow, pointer, spread, widen
from qanat.backends.cpu.simd.tile import Tile, gather, offset, scatter
from qanat.backends.cpu.simd.types import FLOAT, INT16, INT32, LANES, f32x16, vector_of

__all__ = [
    "fma_stored",
    "in_order",
    "join_tile",
    "prefetch_stored",
    "put_stored",
    "scaled_in_order",
    "store_stored",
]

PAIRS = INSTRUCTION_SET != "avx512"
"""Whether bfloat16 is read as pairs: with AVX-512 the plain way takes as many instructions."""
_HALF = LANES // 2
_VECTOR = vector_of(FLOAT)


def _element(array: Any) -> ir.Type:
    return INT16 if array.dtype == types.uint16 else FLOAT


def _paired(array: Any) -> bool:
    return PAIRS and _element(array) is INT16


def _load(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    """16 values as float32, in the order of the memory or of pairs."""
    element = _element(array_type)
    value = builder.load(pointer(context, builder, array_type, array, at, vector_of(element)))
    value.align = 1
    if element is FLOAT:
        return value
    if not PAIRS:
        return widen(builder, value)
    words = builder.bitcast(value, vector_of(INT32, _HALF))
    even = builder.shl(words, ir.Constant(words.type, [16] * _HALF))
    odd = builder.and_(words, ir.Constant(words.type, [-65536] * _HALF))
    both = builder.shuffle_vector(even, odd, ir.Constant(vector_of(INT32), list(range(LANES))))
    return builder.bitcast(both, _VECTOR)


def _in_order(builder: Any, array: Any, vector: Any) -> Any:
    if not _paired(array):
        return vector
    lanes = [i // 2 + _HALF * (i % 2) for i in range(LANES)]
    return builder.shuffle_vector(
        vector, ir.Constant(_VECTOR, ir.Undefined), ir.Constant(vector_of(INT32), lanes)
    )


@intrinsic
def in_order(typing_context: Any, stored: Any, vector: Any) -> Any:
    """A vector that `fma_stored` made from `stored`, with its lanes in the order of the memory."""
    return f32x16(stored, f32x16), lambda context, builder, sig, args: _in_order(builder, stored, args[1])


@intrinsic
def scaled_in_order(typing_context: Any, stored: Any, tile: Any, scale: Any) -> Any:
    """The vectors of a tile times a number, with their lanes in the order of the memory."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        factor = spread(builder, args[2])
        vectors = [_in_order(builder, stored, v) for v in scatter(builder, args[1])]
        return gather(builder, [builder.fmul(v, factor) for v in vectors])

    return tile(stored, tile, types.float32), generate


@intrinsic
def fma_stored(
    typing_context: Any, tile: Any, stored: Any, at: Any, x: Any, x_at: Any, x_stride: Any, first: Any
) -> Any:
    """tile[r] = fma(x[x_at + r * x_stride], stored[at ...], tile[r]) for rows r >= `first` (None: all)."""
    assert isinstance(tile, Tile)
    assert tile.panels == 1
    every = isinstance(first, types.NoneType)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vectors = scatter(builder, args[0])
        values = _load(context, builder, stored, args[1], args[2])
        for row in range(tile.rows):
            index = offset(builder, args[4], args[5], row)
            factor = spread(builder, builder.load(pointer(context, builder, x, args[3], index, FLOAT)))
            new = _call(builder, "llvm.fma.v16f32", _VECTOR, [factor, values, vectors[row]])
            if not every:
                taken = builder.icmp_signed("<=", args[6], ir.Constant(args[6].type, row))
                new = builder.select(taken, new, vectors[row])
            vectors[row] = new
        return gather(builder, vectors)

    from_row = types.none if every else types.intp
    return tile(tile, stored, types.intp, x, types.intp, types.intp, from_row), generate


@intrinsic
def prefetch_stored(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the line that holds element `index` to come as near as the second cache."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = pointer(context, builder, array, args[0], args[1], ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [at.type, INT32, INT32, INT32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [at, *(ir.Constant(INT32, n) for n in (0, 2, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def join_tile(typing_context: Any, array: Any, at: Any, tile: Any, old: Any, new: Any) -> Any:
    """y = y * old + tile * new for the rows y of a float32 array, which lie one after the other.

    `old` and `new` are places in the same array, where each row has its factor.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def factor(at: Any, row: int) -> Any:
            index = builder.add(at, ir.Constant(at.type, row))
            return spread(builder, builder.load(pointer(context, builder, array, args[0], index, FLOAT)))

        results = []
        for row, vector in enumerate(scatter(builder, args[2])):
            index = builder.add(args[1], ir.Constant(args[1].type, row * LANES))
            place = pointer(context, builder, array, args[0], index, _VECTOR)
            y = builder.load(place)
            y.align = 4
            y = builder.fadd(
                builder.fmul(y, factor(args[3], row)), builder.fmul(vector, factor(args[4], row))
            )
            results.append((y, place))
        for y, place in results:
            builder.store(y, place).align = 4
        return context.get_dummy_value()

    return types.void(array, types.intp, tile, types.intp, types.intp), generate


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
