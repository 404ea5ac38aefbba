"""The two mixers as instructions of a tape: their phases, and the meetings of threads between them."""

from __future__ import annotations

from qanat.backends.cpu.kernels import attention as attention_kernel
from qanat.backends.cpu.kernels import delta as delta_kernel
from qanat.backends.cpu.kernels.jit import merged
from qanat.backends.cpu.kernels.operands import f32, number
from qanat.backends.cpu.kernels.sync import meet

__all__ = ["attention", "delta"]

EVERYTHING, NORM = delta_kernel.EVERYTHING, delta_kernel.NORM
PREPARE_DELTA = delta_kernel.PREPARE
PREPARE, ATTEND, MERGE = attention_kernel.PREPARE, attention_kernel.ATTEND, attention_kernel.MERGE
gated_delta, gated_attention = delta_kernel.gated_delta, attention_kernel.gated_attention


@merged
def delta(tape, i, sizes, one_phase, work, sync, meetings, thread, threads):
    """Operands: joint, eps, constants, old, before, window, after, out. Returns the meetings so far."""
    joint, eps, constants = f32(tape, i, 1), number(tape, i, 3), f32(tape, i, 4)
    old, before, window, after = f32(tape, i, 6), f32(tape, i, 8), f32(tape, i, 10), f32(tape, i, 12)
    out = f32(tape, i, 14)
    phase, last = (EVERYTHING, EVERYTHING) if one_phase else (PREPARE_DELTA, NORM)
    while True:
        gated_delta(
            joint, sizes, eps, constants, old, before, window, after, work, out, phase, thread, threads
        )  # fmt: skip
        if phase == last:
            return meetings
        phase += 1
        meetings += 1
        meet(sync, meetings, threads)


@merged
def attention(
    tape, i, keys, values, sizes, starts, cache_len, pages, cos, sin, plan, merges, work, sync, meetings,
    thread, threads,
):  # fmt: skip
    """Operands: joint, eps, q_norm, k_norm, keys, values, out. Returns the meetings so far."""
    joint, eps, q_norm, k_norm = f32(tape, i, 1), number(tape, i, 3), f32(tape, i, 4), f32(tape, i, 6)
    out = f32(tape, i, 12)
    for phase in range(PREPARE, MERGE + 1 if merges else MERGE):
        if phase > PREPARE:
            meetings += 1
            meet(sync, meetings, threads)
        gated_attention(
            joint, sizes, eps, q_norm, k_norm, cos, sin, starts, cache_len, pages, keys, values, plan, work,
            out, phase, thread, threads,
        )  # fmt: skip
    return meetings
