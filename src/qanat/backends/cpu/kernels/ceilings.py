"""Loops that only read, and loops that only multiply and add: what no kernel can outrun.

Reading: the best of several, as the number of streams that suits a memory controller differs. Arithmetic: the
products of the linear kernels on operands that stay in L1, results in registers.
"""

from __future__ import annotations

from qanat.backends.cpu.kernels.jit import entry, inner
from qanat.backends.cpu.simd import lane_sum, load_bytes, to_f32, zero_i32
from qanat.backends.cpu.simd.dot import dot4, start_sums
from qanat.backends.cpu.simd.tile import add_scaled, fma_tile, store_tile, tile_f32

__all__ = ["F32_STEP", "INT8_STEP", "multiply_f32", "multiply_int8", "read"]

INT8_STEP = 4 * 64 * 2
"""Operations of one step of `multiply_int8`: 4 rows with 64 bytes; a product and a sum are two."""
F32_STEP = 6 * 16 * 2
"""Operations of one step of `multiply_f32`: 6 rows with 16 lanes."""


@inner
def _read(array, begin, end, streams):
    """Add up bytes begin..end (a multiple of 1024 apart) as 1, 2 or 4 streams."""
    a, b, c, d = zero_i32(), zero_i32(), zero_i32(), zero_i32()
    part = (end - begin) // streams
    if streams == 4:
        for i in range(begin, begin + part, 64):
            a = a + load_bytes(array, i)
            b = b + load_bytes(array, i + part)
            c = c + load_bytes(array, i + 2 * part)
            d = d + load_bytes(array, i + 3 * part)
    elif streams == 2:
        for i in range(begin, begin + part, 128):
            a = a + load_bytes(array, i)
            b = b + load_bytes(array, i + 64)
            c = c + load_bytes(array, i + part)
            d = d + load_bytes(array, i + part + 64)
    else:
        for i in range(begin, end, 256):
            a = a + load_bytes(array, i)
            b = b + load_bytes(array, i + 64)
            c = c + load_bytes(array, i + 128)
            d = d + load_bytes(array, i + 192)
    return lane_sum(to_f32(a + b + (c + d)))


@entry
def read(thread, threads, array, streams, sums):
    """One thread's share of reading an int8 array; leaves a number in sums [threads]."""
    share = len(array) // 1024 // threads * 1024
    sums[thread] = _read(array, thread * share, (thread + 1) * share, streams)


@inner
def _multiply_int8(w, x, sums, scales, out, at, times):
    """Products of one step of weights with four rows, `times` times; results into out[at..]."""
    like = tile_f32(4, 1)
    part = start_sums(like, sums, 0, 1)
    for i in range(times):
        part = dot4(part, w, (i & 7) * 64, 0, x, (i & 7) * 4, 64)
    store_tile(out, at, 16, 0, add_scaled(like, part, scales, 0, 0, scales, 0, 0))


@inner
def _multiply_f32(w, x, out, at, times):
    part = tile_f32(6, 1)
    for i in range(times):
        part = fma_tile(part, w, (i & 7) * 16, 0, x, i & 7, 64)
    store_tile(out, at, 16, 0, part)


@entry
def multiply_int8(thread, threads, w, x, sums, scales, out, times):
    """INT8_STEP * times operations; out is float32 [threads * 128]."""
    _multiply_int8(w, x, sums, scales, out, thread * 128, times)


@entry
def multiply_f32(thread, threads, w, x, out, times):
    """F32_STEP * times operations; out is float32 [threads * 128]."""
    _multiply_f32(w, x, out, thread * 128, times)
