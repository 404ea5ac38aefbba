"""Products of signed bytes, summed exactly in int32: the inner step of every int8 linear layer.

Sixty-four weights are sixteen output rows (lanes) of four consecutive inputs. Each lane adds its four
products with the four activations that all lanes share. Weights and activations lie in [-127, 127].

avx512: `vpdpbusd` multiplies unsigned by signed bytes, so the weights' sign bit is flipped (w + 128) and the
sums start from -128 * (sum of the activations) instead of zero.
avx2, several rows: weights become 16-bit numbers, the even bytes of each four apart from the odd ones, and
`vpmaddwd` multiplies and adds pairs. On the fly the bytes are left in the upper half, which takes one
instruction each: the sums are 256 times too large, still exact, and `whole_sums` shifts them back. When many
rows use them, `spread_weights` keeps the plain numbers.
avx2, one row: `vpmaddubsw` multiplies |x| by the weights, which `vpsignb` gave the sign of x. Fewer
instructions a byte of weights, so more of them are on their way from memory at a time; for several rows it
would be more, on the ports that multiply. Pairs of products stay below 2^15: nothing saturates.
generic: the same in plain LLVM.

So activations are stored as the instruction set wants them: bytes in order (avx512), or 16-bit numbers with
each four in the order 0, 2, 1, 3. `ACTIVATION` is the type of the array, and `store_activations` writes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from qanat.backends.cpu.simd.arithmetic import _call
from qanat.backends.cpu.simd.features import INSTRUCTION_SET
from qanat.backends.cpu.simd.memory import constant, pointer, spread
from qanat.backends.cpu.simd.tile import Tile, gather, offset, scatter
from qanat.backends.cpu.simd.types import INT8, INT16, INT32, LANES, i32x16, vector_of

__all__ = ["ACTIVATION", "SPREADS", "dot4", "spread_weights", "start_sums", "store_activations", "whole_sums"]

SPREADS = INSTRUCTION_SET != "avx512"
"""Whether weights that many rows use are worth spreading to 16 bits first."""
ACTIVATION = np.int16 if SPREADS else np.int8
"""Type of quantised activations in memory."""

_WORDS = vector_of(INT32)
_SHORTS = vector_of(INT16, 2 * LANES)
_HALF = LANES // 2


def _byte_pairs(builder: Any, words: Any) -> list[Any]:
    """Bytes 0 and 2 of each lane, and bytes 1 and 3, in the upper halves of 16-bit numbers."""
    shorts = builder.bitcast(words, _SHORTS)
    even = builder.shl(shorts, ir.Constant(_SHORTS, [8] * 2 * LANES))
    odd = builder.and_(shorts, ir.Constant(_SHORTS, [-256] * 2 * LANES))
    return [builder.bitcast(pairs, _WORDS) for pairs in (even, odd)]


def _multiply_add_pairs(builder: Any, sums: Any, a: Any, b: Any) -> Any:
    """sums + low16(a) * low16(b) + high16(a) * high16(b), in each lane."""
    if INSTRUCTION_SET == "generic":
        sixteen = constant(INT32, 16)

        def low(words: Any) -> Any:
            return builder.ashr(builder.shl(words, sixteen), sixteen)

        def high(words: Any) -> Any:
            return builder.ashr(words, sixteen)

        products = builder.add(builder.mul(low(a), low(b)), builder.mul(high(a), high(b)))
        return builder.add(sums, products)
    products = []
    for half in (0, _HALF):
        lanes = ir.Constant(vector_of(INT32, _HALF), list(range(half, half + _HALF)))
        shorts = [
            builder.bitcast(
                builder.shuffle_vector(words, ir.Constant(_WORDS, ir.Undefined), lanes),
                vector_of(INT16, LANES),
            )
            for words in (a, b)
        ]
        products.append(_call(builder, "llvm.x86.avx2.pmadd.wd", vector_of(INT32, _HALF), shorts))
    whole = builder.shuffle_vector(*products, ir.Constant(_WORDS, list(range(LANES))))
    return builder.add(sums, whole)


def _by_signs(tile: Tile, weights: Any) -> bool:
    """Whether `dot4` goes by way of signs (see above)."""
    return INSTRUCTION_SET == "avx2" and tile.rows == 1 and bool(weights.dtype == types.int8)


def _add_by_signs(builder: Any, sums: Any, words: Any, x: Any) -> Any:
    """sums + the four products of bytes in each lane."""
    shorts, whole = vector_of(INT16, LANES), vector_of(INT32, _HALF)
    bytes_ = vector_of(INT8, 2 * LANES)
    halves = []
    for half in (0, _HALF):
        lanes = ir.Constant(whole, list(range(half, half + _HALF)))
        w_half, x_half = (
            builder.bitcast(builder.shuffle_vector(v, ir.Constant(_WORDS, ir.Undefined), lanes), bytes_)
            for v in (words, x)
        )
        magnitudes = _call(builder, "llvm.abs.v32i8", bytes_, [x_half, ir.Constant(ir.IntType(1), 0)])
        signed = _call(builder, "llvm.x86.avx2.psign.b", bytes_, [w_half, x_half])
        pairs = _call(builder, "llvm.x86.avx2.pmadd.ub.sw", shorts, [magnitudes, signed])
        ones = ir.Constant(shorts, [1] * LANES)
        halves.append(_call(builder, "llvm.x86.avx2.pmadd.wd", whole, [pairs, ones]))
    return builder.add(sums, builder.shuffle_vector(*halves, ir.Constant(_WORDS, list(range(LANES)))))


def _load_words(context: Any, builder: Any, array_type: Any, array: Any, at: Any, part: int) -> Any:
    """64 bytes that begin at element `at`, or (part 1) the 64 after them."""
    start = builder.gep(pointer(context, builder, array_type, array, at, _WORDS), [ir.Constant(INT32, part)])
    value = builder.load(start)
    value.align = 1
    return value


@intrinsic
def dot4(
    typing_context: Any, tile: Any, w: Any, w_at: Any, w_stride: Any, x: Any, x_at: Any, x_stride: Any
) -> Any:
    """tile[r, p] += the products of 64 weights of panel p with the four activations of row r that they meet.

    `w` is packed (int8) or spread (int16): both hold 64 elements a step. Read the sums with `whole_sums`.
    """
    spread_already = w.dtype == types.int16

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def weights(panel: int, part: int) -> Any:
            at = offset(builder, args[2], args[3], panel)
            return _load_words(context, builder, sig.args[1], args[1], at, part)

        def activations(row: int, start: int) -> Any:
            at = offset(builder, args[5], args[6], row)
            at = builder.add(at, ir.Constant(at.type, start))
            value = builder.load(pointer(context, builder, sig.args[4], args[4], at, INT32))
            value.align = 1
            return spread(builder, value)

        sums = scatter(builder, args[0])
        places = list(enumerate(tile))
        if INSTRUCTION_SET == "avx512":
            unsigned = [
                builder.xor(weights(panel, 0), constant(INT32, 0x80808080)) for panel in range(tile.panels)
            ]
            for i, (row, panel) in places:
                operands = [sums[i], unsigned[panel], activations(row, 0)]
                sums[i] = _call(builder, "llvm.x86.avx512.vpdpbusd.512", _WORDS, operands)
            return gather(builder, sums)
        if _by_signs(tile, w):
            four = builder.load(pointer(context, builder, sig.args[4], args[4], args[5], vector_of(INT16, 4)))
            four.align = 1
            four = builder.trunc(four, vector_of(INT8, 4))
            order = ir.Constant(vector_of(INT32, 4), [0, 2, 1, 3])
            x = spread(builder, builder.bitcast(builder.shuffle_vector(four, four, order), INT32))
            sums = [_add_by_signs(builder, sums[panel], weights(panel, 0), x) for _, panel in tile]
            return gather(builder, sums)
        # Panel by panel, and in a panel pair by pair: the fewest registers live at once.
        for panel in range(tile.panels):
            both = [weights(panel, 0), weights(panel, 1)] if spread_already else None
            for part, pairs in enumerate(both or _byte_pairs(builder, weights(panel, 0))):
                for i in (i for i, (_, own) in places if own == panel):
                    x = activations(places[i][1][0], 2 * part)
                    sums[i] = _multiply_add_pairs(builder, sums[i], pairs, x)
        return gather(builder, sums)

    return tile(tile, w, types.intp, types.intp, x, types.intp, types.intp), generate


@intrinsic
def start_sums(typing_context: Any, like: Any, sums: Any, at: Any, stride: Any) -> Any:
    """What a group's int32 sums start from, in a tile shaped as `like`.

    Zero, or (avx512) minus 128 times the sum of the group's activations, from sums[at + r * stride], which
    undoes the offset of the weights.
    """
    tile = Tile(i32x16, like.rows, like.panels)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if SPREADS:
            return ir.Constant(context.get_value_type(tile), None)
        starts = []
        for row in range(tile.rows):
            index = offset(builder, args[2], args[3], row)
            value = builder.load(pointer(context, builder, sig.args[1], args[1], index, INT32))
            starts.append(spread(builder, builder.neg(value)))
        return gather(builder, [starts[row] for row, _ in tile])

    return tile(like, sums, types.intp, types.intp), generate


@intrinsic
def whole_sums(typing_context: Any, tile: Any, weights: Any) -> Any:
    """The sums of products that `dot4` has left in a tile, given the array of weights it read."""
    scaled = SPREADS and weights.dtype == types.int8 and not _by_signs(tile, weights)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if not scaled:
            return args[0]
        sums = scatter(builder, args[0])
        return gather(builder, [builder.ashr(value, constant(INT32, 8)) for value in sums])

    return tile(tile, weights), generate


@intrinsic
def spread_weights(typing_context: Any, packed: Any, at: Any, to: Any, to_at: Any) -> Any:
    """Spread 64 packed weights at `at` to 64 numbers of 16 bits at `to_at` of an int16 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        words = _load_words(context, builder, sig.args[0], args[0], args[1], 0)
        start = pointer(context, builder, sig.args[2], args[2], args[3], _WORDS)
        for part, pairs in enumerate(_byte_pairs(builder, words)):
            shorts = builder.ashr(builder.bitcast(pairs, _SHORTS), ir.Constant(_SHORTS, [8] * 2 * LANES))
            value = builder.bitcast(shorts, _WORDS)
            builder.store(value, builder.gep(start, [ir.Constant(INT32, part)])).align = 1
        return context.get_dummy_value()

    return types.void(packed, types.intp, to, types.intp), generate


@intrinsic
def store_activations(typing_context: Any, array: Any, at: Any, values: Any) -> Any:
    """Write sixteen int32 values in [-127, 127] as activations, to an array of type `ACTIVATION`."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value, stored = args[2], INT16 if SPREADS else INT8
        if SPREADS:
            order = [four + i for four in range(0, LANES, 4) for i in (0, 2, 1, 3)]
            value = builder.shuffle_vector(value, value, ir.Constant(_WORDS, order))
        to = pointer(context, builder, sig.args[0], args[0], args[1], vector_of(stored))
        builder.store(builder.trunc(value, vector_of(stored)), to).align = 1
        return context.get_dummy_value()

    return types.void(array, types.intp, i32x16), generate
