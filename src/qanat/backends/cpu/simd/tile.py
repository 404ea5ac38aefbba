"""Tiles: a block of y = x W^T held in registers as one value, some rows high and some panels wide.

A panel is one vector: sixteen outputs of one row. A kernel on tiles is written once and compiled for each
shape: the shape is part of the tile's type, and every operation here is unrolled over it. Arrays are flat:
row r of x begins at `x_at + r * x_stride`, panel p of the weights at `w_at + p * w_stride`, and vector (r, p)
of y at `at + r * stride + p * p_stride`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic, models, register_model

from qanat.backends.cpu.simd.arithmetic import _call
from qanat.backends.cpu.simd.memory import constant, pointer, spread, widen
from qanat.backends.cpu.simd.types import FLOAT, INT16, INT32, Vector, f32x16, vector_of

__all__ = [
    "SCALE_MANTISSA_GAP",
    "SCALE_OFFSET",
    "Tile",
    "add_scaled",
    "add_tiles",
    "fma_tile",
    "load_tile",
    "store_tile",
    "tile_f32",
]

# A scale of int8 weights is stored in 16 bits, 6 of exponent and 10 of mantissa: those of a float32, shifted
# and without the least exponent. It has no zero, and lies in 2^-48 .. 2^16.
SCALE_MANTISSA_GAP = 23 - 10
SCALE_OFFSET = (127 - 48) << 23


class Tile(types.Type):
    """`rows` times `panels` vectors of one kind."""

    def __init__(self, vector: Vector, rows: int, panels: int) -> None:
        self.vector, self.rows, self.panels = vector, rows, panels
        super().__init__(name=f"{vector.name}tile{rows}by{panels}")

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(row, panel) of each vector, in the order in which they are held."""
        return ((row, panel) for panel in range(self.panels) for row in range(self.rows))


@register_model(Tile)
class _TileModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, tile: Tile) -> None:
        element = vector_of(FLOAT if tile.vector is f32x16 else INT32)
        super().__init__(manager, tile, ir.ArrayType(element, tile.rows * tile.panels))


def gather(builder: Any, vectors: list[Any]) -> Any:
    """LLVM vectors as the value of a tile."""
    value = ir.Constant(ir.ArrayType(vectors[0].type, len(vectors)), ir.Undefined)
    for index, vector in enumerate(vectors):
        value = builder.insert_value(value, vector, index)
    return value


def scatter(builder: Any, value: Any) -> list[Any]:
    """The LLVM vectors of a tile."""
    return [builder.extract_value(value, index) for index in range(value.type.count)]


def offset(builder: Any, at: Any, stride: Any, times: int) -> Any:
    """at + times * stride."""
    return builder.add(at, builder.mul(stride, ir.Constant(stride.type, times))) if times else at


@intrinsic
def tile_f32(typing_context: Any, rows: Any, panels: Any) -> Any:
    """A float32 tile of zeros; its shape is given by literals."""
    if not (isinstance(rows, types.IntegerLiteral) and isinstance(panels, types.IntegerLiteral)):
        raise RequireLiteralValue("the shape of a tile is part of its type")
    tile = Tile(f32x16, rows.literal_value, panels.literal_value)
    return tile(rows, panels), lambda context, builder, sig, args: ir.Constant(
        context.get_value_type(tile), None
    )


def _places(
    context: Any, builder: Any, tile: Tile, array_type: Any, array: Any, at: Any, stride: Any, p_stride: Any
) -> Any:
    """Where the vectors of a tile lie in a float32 array."""
    for row, panel in tile:
        index = offset(builder, at, stride, row)
        index = offset(builder, index, p_stride, panel)
        yield pointer(context, builder, array_type, array, index, vector_of(FLOAT))


@intrinsic
def load_tile(typing_context: Any, like: Any, array: Any, at: Any, stride: Any, p_stride: Any) -> Any:
    """A tile shaped as `like`, read from a float32 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vectors = []
        for place in _places(context, builder, like, sig.args[1], *args[1:]):
            vectors.append(builder.load(place))
            vectors[-1].align = 4
        return gather(builder, vectors)

    return like(like, array, types.intp, types.intp, types.intp), generate


@intrinsic
def store_tile(typing_context: Any, array: Any, at: Any, stride: Any, p_stride: Any, tile: Any) -> Any:
    """Write a tile to a float32 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        places = _places(context, builder, tile, sig.args[0], *args[:4])
        for vector, place in zip(scatter(builder, args[4]), places, strict=True):
            builder.store(vector, place).align = 4
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, types.intp, tile), generate


@intrinsic
def add_tiles(typing_context: Any, a: Any, b: Any) -> Any:
    """a + b, both float32."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pairs = zip(*(scatter(builder, value) for value in args), strict=True)
        return gather(builder, [builder.fadd(*pair) for pair in pairs])

    return a(a, a), generate


def _factors(context: Any, builder: Any, tile: Tile, x_type: Any, x: Any, at: Any, stride: Any) -> list[Any]:
    """One float32 of each row, in all lanes."""
    factors = []
    for row in range(tile.rows):
        index = offset(builder, at, stride, row)
        factors.append(spread(builder, builder.load(pointer(context, builder, x_type, x, index, FLOAT))))
    return factors


def _widen_scales(builder: Any, halves: Any) -> Any:
    """Scales of int8 weights in 16-bit lanes as float32 lanes."""
    words = builder.shl(builder.zext(halves, vector_of(INT32)), constant(INT32, SCALE_MANTISSA_GAP))
    return builder.bitcast(builder.add(words, constant(INT32, SCALE_OFFSET)), vector_of(FLOAT))


def _weights(
    context: Any, builder: Any, tile: Tile, array_type: Any, array: Any, at: Any, stride: Any, widen: Any
) -> list[Any]:
    """16 numbers of each panel as float32: of a float32 array, or of a uint16 array by `widen`."""
    stored = FLOAT if array_type.dtype == types.float32 else INT16
    vectors = []
    for panel in range(tile.panels):
        index = offset(builder, at, stride, panel)
        value = builder.load(pointer(context, builder, array_type, array, index, vector_of(stored)))
        value.align = 1
        vectors.append(value if stored is FLOAT else widen(builder, value))
    return vectors


@intrinsic
def fma_tile(
    typing_context: Any, tile: Any, w: Any, w_at: Any, w_stride: Any, x: Any, x_at: Any, x_stride: Any
) -> Any:
    """tile[r, p] = fma(w[w_at + p * w_stride ...], x[x_at + r * x_stride], tile[r, p]).

    w is float32, or uint16 that holds bfloat16.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        weights = _weights(context, builder, tile, sig.args[1], *args[1:4], widen)
        factors = _factors(context, builder, tile, sig.args[4], *args[4:7])
        vectors = [
            _call(builder, "llvm.fma.v16f32", old.type, [weights[panel], factors[row], old])
            for (row, panel), old in zip(tile, scatter(builder, args[0]), strict=True)
        ]
        return gather(builder, vectors)

    signature = tile(tile, w, types.intp, types.intp, x, types.intp, types.intp)
    return signature, generate


@intrinsic
def add_scaled(
    typing_context: Any,
    total: Any,
    sums: Any,
    w: Any,
    w_at: Any,
    w_stride: Any,
    x: Any,
    x_at: Any,
    x_stride: Any,
) -> Any:
    """total = total + (float32(sums) * w) * x, each step rounded; w and x are found as in `fma_tile`.

    w is float32, or uint16 that holds scales of int8 weights.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        weights = _weights(context, builder, total, sig.args[2], *args[2:5], _widen_scales)
        factors = _factors(context, builder, total, sig.args[5], *args[5:8])
        vectors = []
        both = zip(scatter(builder, args[0]), scatter(builder, args[1]), strict=True)
        for (row, panel), (old, whole) in zip(total, both, strict=True):
            product = builder.fmul(builder.sitofp(whole, vector_of(FLOAT)), weights[panel])
            vectors.append(builder.fadd(old, builder.fmul(product, factors[row])))
        return gather(builder, vectors)

    signature = total(total, sums, w, types.intp, types.intp, x, types.intp, types.intp)
    return signature, generate
