"""y = x W^T with int8 weights and int8 activations, both scaled in groups of 32 inputs.

For row n and output o, over the groups g in ascending order, each step rounded to float32:

    y = y + (float32(sum of w * x over the group, exact) * weight_scale[o, g]) * activation_scale[n, g]

Tiles of y stay in registers over all groups. One row is multiplied with four panels (of 16 outputs) at once,
one of each quarter of the matrix: four long streams are what it takes to read at the speed of memory. Many
rows go block by block: 512 inputs of one panel, spread to 16 bits, stay in L1 while the rows of a block,
which stay in L2, are multiplied with them; y waits in memory between the blocks of inputs, so the order of
its sums is the same in every path.

Layouts: see `qanat.backends.cpu.packing` and `qanat.backends.cpu.kernels.quantise`.
"""

from __future__ import annotations

import numpy as np

from qanat.backends.cpu.kernels.jit import inner
from qanat.backends.cpu.kernels.share import add_residual, pieces, share
from qanat.backends.cpu.kernels.sync import claim
from qanat.backends.cpu.simd.dot import SPREADS, dot4, spread_weights, start_sums, whole_sums
from qanat.backends.cpu.simd.features import INSTRUCTION_SET
from qanat.backends.cpu.simd.tile import add_scaled, load_tile, store_tile, tile_f32

__all__ = ["linear_int8", "panels_int8"]

GROUP = 32
STEPS = GROUP // 4  # products of four in a group
PANEL = 16
QUARTERS = 4  # packed weights have a multiple of this many panels
# Shapes of tiles (rows, panels): as many accumulators as the registers hold.
TALL, TALL_PANELS = (8, 2) if INSTRUCTION_SET == "avx512" else (4, 1)
FOUR_PANELS, TWO_PANELS = (4, 4) if INSTRUCTION_SET == "avx512" else (1, 2)
ROW_BLOCK = 192
GROUP_BLOCK = 16


@inner
def _tile(like, first, w, w_at, w_stride, ws, ws_at, ws_stride, q, q_at, ldq, xs, sums, xs_at, lds, groups,
          out, out_at, ldo, p_stride):  # fmt: skip
    """One tile of out = (0 if first, else out) + the products over `groups` groups."""
    total = like if first else load_tile(like, out, out_at, ldo, p_stride)
    for g in range(groups):
        part = start_sums(like, sums, xs_at + g, lds)
        for step in range(g * STEPS, (g + 1) * STEPS):
            part = dot4(part, w, w_at + step * 64, w_stride, q, q_at + step * 4, ldq)
        part = whole_sums(part, w)
        total = add_scaled(total, part, ws, ws_at + g * PANEL, ws_stride, xs, xs_at + g, lds)
    store_tile(out, out_at, ldo, p_stride, total)


@inner
def _strip(like, panels, p, quarter, w, ws, q, q_at, ldq, xs, sums, xs_at, groups, out, out_at, ldo):
    """All inputs of panel p of each quarter times the rows of `like`, a tile of `panels` panels."""
    size = groups * GROUP * PANEL
    for first in range(p, p + QUARTERS * quarter, panels * quarter):
        _tile(like, True, w, first * size, quarter * size, ws, first * groups * PANEL,
              quarter * groups * PANEL, q, q_at, ldq, xs, sums, xs_at, groups, groups,
              out, out_at + first * PANEL, ldo, quarter * PANEL)  # fmt: skip


@inner
def _few(p, quarter, rows, w, ws, q, q_at, ldq, xs, sums, xs_at, groups, out, out_at, ldo):
    """All inputs of panel p of each quarter times any number of rows, straight from the packed weights."""
    r = 0
    while rows - r >= TALL:
        _strip(tile_f32(TALL, TALL_PANELS), TALL_PANELS, p, quarter, w, ws, q, q_at + r * ldq, ldq,
               xs, sums, xs_at + r * groups, groups, out, out_at + r * ldo, ldo)  # fmt: skip
        r += TALL
    if rows - r >= 4:
        _strip(tile_f32(4, FOUR_PANELS), FOUR_PANELS, p, quarter, w, ws, q, q_at + r * ldq, ldq,
               xs, sums, xs_at + r * groups, groups, out, out_at + r * ldo, ldo)  # fmt: skip
        r += 4
    if rows - r >= 2:
        _strip(tile_f32(2, TWO_PANELS), TWO_PANELS, p, quarter, w, ws, q, q_at + r * ldq, ldq,
               xs, sums, xs_at + r * groups, groups, out, out_at + r * ldo, ldo)  # fmt: skip
        r += 2
    if rows - r:
        _strip(tile_f32(1, QUARTERS), QUARTERS, p, quarter, w, ws, q, q_at + r * ldq, ldq,
               xs, sums, xs_at + r * groups, groups, out, out_at + r * ldo, ldo)  # fmt: skip


@inner
def _many(begin, end, rows, w, ws, q, q_at, ldq, xs, sums, xs_at, groups, out, out_at, ldo):
    """Panels begin..end times a multiple of TALL rows, with weights spread to 16 bits block by block."""
    wide = np.empty(GROUP_BLOCK * GROUP * PANEL, np.int16)
    for g in range(0, groups, GROUP_BLOCK):
        count = min(GROUP_BLOCK, groups - g)
        for p in range(begin, end):
            at = (p * groups + g) * GROUP * PANEL
            for i in range(0, count * GROUP * PANEL, 64):
                spread_weights(w, at + i, wide, i)
            for r in range(0, rows, TALL):
                _tile(tile_f32(TALL, 1), g == 0, wide, 0, 0, ws, (p * groups + g) * PANEL, 0,
                      q, q_at + r * ldq + g * GROUP, ldq, xs, sums, xs_at + r * groups + g, groups, count,
                      out, out_at + r * ldo + p * PANEL, ldo, 0)  # fmt: skip


@inner
def panels_int8(begin, end, quarter, q, ldq, xs, sums, n, w, ws, groups, out, ldo, residual):
    """Panels begin..end of each quarter (of `quarter` panels) for n rows: one thread's share."""
    for start in range(0, n, ROW_BLOCK):
        at, stop = start, min(start + ROW_BLOCK, n)
        if SPREADS and stop - start > 2 * TALL:
            rows = (stop - start) // TALL * TALL
            for first in range(0, QUARTERS * quarter, quarter):
                _many(first + begin, first + end, rows, w, ws, q, at * ldq, ldq, xs, sums, at * groups,
                      groups, out, at * ldo, ldo)  # fmt: skip
            at += rows
        if at < stop:
            for p in range(begin, end):
                _few(p, quarter, stop - at, w, ws, q, at * ldq, ldq, xs, sums, at * groups, groups,
                     out, at * ldo, ldo)  # fmt: skip
    if len(residual):
        add_residual(begin, end, quarter, n, residual, out, ldo)


@inner
def linear_int8(q, ldq, xs, sums, n, w, ws, groups, out, ldo, residual, sync, instruction, threads):
    """What one thread can get of out [n, ldo] = x W^T, or residual + x W^T. All arrays are flat.

    q: activations, row r at r * ldq. xs float32, sums int32: [n, groups]. w int8, ws uint16 (bfloat16):
    packed panels. out, residual: float32 [n, ldo], ldo at least the padded outputs; residual is another
    array than out, or empty for none. sync: see `kernels.sync`.
    """
    quarter = len(ws) // (groups * PANEL * QUARTERS)
    count = pieces(quarter, n, threads)
    piece = claim(sync, instruction)
    while piece < count:
        begin, end = share(quarter, count, piece)
        panels_int8(begin, end, quarter, q, ldq, xs, sums, n, w, ws, groups, out, ldo, residual)
        piece = claim(sync, instruction)
