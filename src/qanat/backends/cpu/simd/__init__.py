"""SIMD for Numba: vectors of sixteen lanes, as readable as scalars.

Knows: LLVM's vector types and instructions, and which of them the host has. Must not know: weights, layers.
Inside a jitted function `a * b + c` works on vectors lane by lane; what has no operator is a function here.
"""

from __future__ import annotations

from qanat.backends.cpu.simd.arithmetic import (
    as_f32,
    as_i32,
    fma,
    lane_max,
    lane_sum,
    round_to_i32,
    sqrt,
    to_f32,
    vmax,
    vmin,
    zero_f32,
    zero_i32,
)
from qanat.backends.cpu.simd.memory import (
    load_bf16,
    load_bytes,
    load_f32,
    load_i32,
    prefetch,
    splat_bf16,
    splat_bytes,
    splat_f32,
    splat_i32,
    store_bf16,
    store_f32,
    store_i32,
)
from qanat.backends.cpu.simd.types import LANES, f32x16, i32x16

__all__ = [
    "LANES",
    "as_f32",
    "as_i32",
    "f32x16",
    "fma",
    "i32x16",
    "lane_max",
    "lane_sum",
    "load_bf16",
    "load_bytes",
    "load_f32",
    "load_i32",
    "prefetch",
    "round_to_i32",
    "splat_bf16",
    "splat_bytes",
    "splat_f32",
    "splat_i32",
    "sqrt",
    "store_bf16",
    "store_f32",
    "store_i32",
    "to_f32",
    "vmax",
    "vmin",
    "zero_f32",
    "zero_i32",
]
