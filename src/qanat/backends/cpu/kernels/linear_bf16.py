"""y = x W^T with bfloat16 weights and float32 activations.

For row n and output o: the products over each block of 128 inputs are summed in ascending order by fused
multiply-adds that start from zero; then the sums of the blocks are added in ascending order.

The paths are those of `linear_int8`: a tile of one row and four long streams of panels, at the speed of
memory; and for many rows blocks of 256 inputs, whose weights wait in L1 as float32 and whose activations
are copied side by side into L2 (rows that lie a power of two apart would evict one another).
"""

from __future__ import annotations

import numpy as np

from qanat.backends.cpu.kernels.jit import inner
from qanat.backends.cpu.kernels.share import add_residual, pieces, share
from qanat.backends.cpu.kernels.sync import claim
from qanat.backends.cpu.simd.features import INSTRUCTION_SET
from qanat.backends.cpu.simd.memory import load_bf16, store_f32
from qanat.backends.cpu.simd.tile import add_tiles, fma_tile, load_tile, store_tile, tile_f32

__all__ = ["linear_bf16", "panels_bf16"]

BLOCK = 128  # inputs that are summed before their sum is added to the total
PANEL = 16
QUARTERS = 4  # packed weights have a multiple of this many panels
TALL, TALL_PANELS = (8, 2) if INSTRUCTION_SET == "avx512" else (6, 1)
FOUR_PANELS, TWO_PANELS = (4, 4) if INSTRUCTION_SET == "avx512" else (1, 2)
ROW_BLOCK = 192
INPUT_BLOCK = 2 * BLOCK
LD_BLOCK = INPUT_BLOCK + 16


@inner
def _tile(like, first, w, w_at, w_stride, x, x_at, ldx, inputs, out, out_at, ldo, p_stride):
    """One tile of out = (0 if first, else out) + the products over `inputs` inputs."""
    total = like if first else load_tile(like, out, out_at, ldo, p_stride)
    for block in range(0, inputs, BLOCK):
        part = like
        for i in range(block, min(block + BLOCK, inputs)):
            part = fma_tile(part, w, w_at + i * PANEL, w_stride, x, x_at + i, ldx)
        total = add_tiles(total, part)
    store_tile(out, out_at, ldo, p_stride, total)


@inner
def _strip(like, panels, p, quarter, w, size, x, x_at, ldx, inputs, out, out_at, ldo):
    """All inputs of panel p of each quarter times the rows of `like`, a tile of `panels` panels."""
    for first in range(p, p + QUARTERS * quarter, panels * quarter):
        _tile(like, True, w, first * size, quarter * size, x, x_at, ldx, inputs,
              out, out_at + first * PANEL, ldo, quarter * PANEL)  # fmt: skip


@inner
def _few(p, quarter, rows, w, size, x, x_at, ldx, inputs, out, out_at, ldo):
    """All inputs of panel p of each quarter times any number of rows, straight from the packed weights."""
    r = 0
    while rows - r >= TALL:
        _strip(tile_f32(TALL, TALL_PANELS), TALL_PANELS, p, quarter, w, size, x, x_at + r * ldx, ldx,
               inputs, out, out_at + r * ldo, ldo)  # fmt: skip
        r += TALL
    if rows - r >= 4:
        _strip(tile_f32(4, FOUR_PANELS), FOUR_PANELS, p, quarter, w, size, x, x_at + r * ldx, ldx,
               inputs, out, out_at + r * ldo, ldo)  # fmt: skip
        r += 4
    if rows - r >= 2:
        _strip(tile_f32(2, TWO_PANELS), TWO_PANELS, p, quarter, w, size, x, x_at + r * ldx, ldx,
               inputs, out, out_at + r * ldo, ldo)  # fmt: skip
        r += 2
    if rows - r:
        _strip(tile_f32(1, QUARTERS), QUARTERS, p, quarter, w, size, x, x_at + r * ldx, ldx,
               inputs, out, out_at + r * ldo, ldo)  # fmt: skip


@inner
def _many(begin, end, quarter, rows, w, size, x, x_at, ldx, inputs, out, out_at, ldo):
    """Panels begin..end of each quarter times a multiple of TALL rows, block by block of inputs."""
    wide = np.empty(INPUT_BLOCK * PANEL, np.float32)
    near = np.empty(rows * LD_BLOCK, np.float32)
    for i in range(0, inputs, INPUT_BLOCK):
        count = min(INPUT_BLOCK, inputs - i)
        for r in range(rows):
            for j in range(count):
                near[r * LD_BLOCK + j] = x[x_at + r * ldx + i + j]
        for first in range(0, QUARTERS * quarter, quarter):
            for p in range(first + begin, first + end):
                for j in range(0, count * PANEL, PANEL):
                    store_f32(wide, j, load_bf16(w, p * size + i * PANEL + j))
                for r in range(0, rows, TALL):
                    _tile(tile_f32(TALL, 1), i == 0, wide, 0, 0, near, r * LD_BLOCK, LD_BLOCK, count,
                          out, out_at + r * ldo + p * PANEL, ldo, 0)  # fmt: skip


@inner
def panels_bf16(begin, end, quarter, x, ldx, n, inputs, w, size, out, ldo, residual):
    """Panels begin..end of each quarter (of `quarter` panels of `size` weights): one thread's share."""
    for start in range(0, n, ROW_BLOCK):
        at, stop = start, min(start + ROW_BLOCK, n)
        if stop - start > TALL:
            rows = (stop - start) // TALL * TALL
            _many(begin, end, quarter, rows, w, size, x, at * ldx, ldx, inputs, out, at * ldo, ldo)
            at += rows
        if at < stop:
            for p in range(begin, end):
                _few(p, quarter, stop - at, w, size, x, at * ldx, ldx, inputs, out, at * ldo, ldo)
    if len(residual):
        add_residual(begin, end, quarter, n, residual, out, ldo)


@inner
def linear_bf16(x, ldx, n, inputs, w, panels, out, ldo, residual, sync, instruction, threads):
    """What one thread can get of out [n, ldo] = x W^T, or residual + x W^T. All arrays are flat.

    x: float32, row r at r * ldx. w: uint16 (bfloat16), `panels` packed panels (a multiple of four). out,
    residual: float32 [n, ldo], ldo at least 16 * panels; residual is another array than out, or empty.
    sync: see `kernels.sync`.
    """
    size, quarter = len(w) // panels, panels // QUARTERS
    count = pieces(quarter, n, threads)
    piece = claim(sync, instruction)
    while piece < count:
        begin, end = share(quarter, count, piece)
        panels_bf16(begin, end, quarter, x, ldx, n, inputs, w, size, out, ldo, residual)
        piece = claim(sync, instruction)
