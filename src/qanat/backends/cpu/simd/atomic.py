"""What threads in the middle of a kernel tell one another: counters in memory, and how to wait for them."""

from __future__ import annotations

import platform
import sys
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from qanat.backends.cpu.simd.memory import pointer
from qanat.backends.cpu.simd.types import INT32

__all__ = ["atomic_add", "atomic_load", "give_way", "pause"]

_INT64 = ir.IntType(64)
_GIVE_WAY = "SwitchToThread" if sys.platform == "win32" else "sched_yield"


def _declared(builder: Any, kind: ir.FunctionType, name: str) -> Any:
    return builder.module.globals.get(name) or ir.Function(builder.module, kind, name)


@intrinsic
def atomic_add(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """array[index] += value, an int64, as one step; returns what it was before."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = pointer(context, builder, sig.args[0], args[0], args[1], _INT64)
        return builder.atomic_rmw("add", at, args[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), generate


@intrinsic
def atomic_load(typing_context: Any, array: Any, index: Any) -> Any:
    """array[index], an int64, with everything that its writer had written before."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = pointer(context, builder, sig.args[0], args[0], args[1], _INT64)
        return builder.load_atomic(at, "acquire", 8)

    return types.int64(array, types.intp), generate


@intrinsic
def pause(typing_context: Any) -> Any:
    """Tell the core that this is a waiting loop: it saves power, and its twin thread gets on faster."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if platform.machine().lower() in ("x86_64", "amd64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(_declared(builder, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def give_way(typing_context: Any) -> Any:
    """Let another thread of the system have this core."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(INT32, [])
        builder.call(_declared(builder, kind, _GIVE_WAY), [])
        return context.get_dummy_value()

    return types.void(), generate
