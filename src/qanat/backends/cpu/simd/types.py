"""Vector types for Numba: sixteen lanes of float32 or int32, held in whatever registers the host has.

LLVM splits a vector of 512 bits into two or four registers where the host's are narrower, so kernels are
written once. Arithmetic operators work lane by lane and are never reassociated or contracted.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model

__all__ = ["FLOAT", "INT8", "INT16", "INT32", "LANES", "Vector", "f32x16", "i32x16", "vector_of"]

LANES = 16
FLOAT, INT8, INT16, INT32 = ir.FloatType(), ir.IntType(8), ir.IntType(16), ir.IntType(32)


class Vector(types.Type):
    """A vector of `LANES` elements; `element` is "f32" or "i32"."""

    def __init__(self, element: str) -> None:
        self.element = element
        super().__init__(name=f"{element}x{LANES}")


f32x16, i32x16 = Vector("f32"), Vector("i32")


def vector_of(element: ir.Type, lanes: int = LANES) -> ir.VectorType:
    """The LLVM vector type."""
    return ir.VectorType(element, lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector_of(FLOAT if vector.element == "f32" else INT32))


def _operator(function: Callable[[Any, Any], Any], f32: str | None, i32: str | None) -> None:
    """Give a Python operator its meaning on vectors: the names of the LLVM instructions."""
    instructions = [(vector, name) for vector, name in ((f32x16, f32), (i32x16, i32)) if name]

    class Template(ConcreteTemplate):  # type: ignore[misc]
        key = function
        cases: ClassVar[list[Any]] = [signature(vector, vector, vector) for vector, _ in instructions]

    infer_global(function)(Template)
    for vector, name in instructions:

        def generate(context: Any, builder: Any, sig: Any, args: Any, name: str = name) -> Any:
            return getattr(builder, name)(*args)

        lower_builtin(function, vector, vector)(generate)


_operator(operator.add, "fadd", "add")
_operator(operator.sub, "fsub", "sub")
_operator(operator.mul, "fmul", "mul")
_operator(operator.truediv, "fdiv", None)
_operator(operator.and_, None, "and_")
_operator(operator.or_, None, "or_")
_operator(operator.xor, None, "xor")
_operator(operator.lshift, None, "shl")
_operator(operator.rshift, None, "ashr")
