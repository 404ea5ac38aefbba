"""A whole step with bfloat16 weights, all else float32.

One call, and one meeting of the threads after each operation.
"""

from __future__ import annotations

from qanat.backends.cpu.kernels import mixing
from qanat.backends.cpu.kernels.jit import entry
from qanat.backends.cpu.kernels.linear_bf16 import linear_bf16
from qanat.backends.cpu.kernels.norm import rms_norm, swiglu
from qanat.backends.cpu.kernels.operands import f32, number, u16
from qanat.backends.cpu.kernels.operations import ATTENTION, DELTA, EMBED, LINEAR, NORM, SWIGLU
from qanat.backends.cpu.kernels.packing import rows_bf16
from qanat.backends.cpu.kernels.share import share
from qanat.backends.cpu.kernels.sync import meet

__all__ = ["run_bf16"]

delta, attention = mixing.delta, mixing.attention


@entry
def run_bf16(
    thread, threads, tape, sync, tokens, output_rows, starts, cache_len, pages, cos, sin, attention_sizes,
    plan, delta_sizes, flags, work,
):  # fmt: skip
    """Go through a tape (`qanat.backends.cpu.tape`), as one of `threads` threads.

    sync: counters (`kernels.sync`), zero. The others: what this step has for itself, see `Step`. An operand
    that is an array takes two columns, and one that is a number takes one; `ld` are elements from row to row.
    """
    meetings = 0
    for i in range(len(tape)):
        operation = tape[i, 0]
        if operation == LINEAR:
            # x, ldx, rows, inputs, weights, panels, out, ldo, residual
            linear_bf16(f32(tape, i, 1), tape[i, 3], tape[i, 4], tape[i, 5], u16(tape, i, 6), tape[i, 8],
                        f32(tape, i, 9), tape[i, 11], f32(tape, i, 12), sync, i, threads)  # fmt: skip
        elif operation == SWIGLU:
            # joint, stride, column of up, rows, columns, out
            swiglu(f32(tape, i, 1), tape[i, 3], tape[i, 4], tape[i, 5], tape[i, 6], f32(tape, i, 7),
                   thread, threads)  # fmt: skip
        elif operation == NORM:
            # x, ldx, rows, by output rows or all, gain, eps, out
            n = tape[i, 4]
            rows = output_rows if tape[i, 5] else output_rows[:0]
            rms_norm(f32(tape, i, 1), tape[i, 3], rows, n, f32(tape, i, 6), number(tape, i, 8),
                     f32(tape, i, 9), thread, threads)  # fmt: skip
        elif operation == DELTA:
            meetings = delta(tape, i, delta_sizes, flags[0], work, sync, meetings, thread, threads)
        elif operation == ATTENTION:
            meetings = attention(
                tape, i, f32(tape, i, 8), f32(tape, i, 10), attention_sizes, starts, cache_len, pages, cos,
                sin, plan, flags[1], work, sync, meetings, thread, threads,
            )  # fmt: skip
        elif operation == EMBED:
            # weights, inputs filled up, columns, out, ldo
            first, stop = share(len(tokens), threads, thread)
            rows_bf16(
                tokens, u16(tape, i, 1), tape[i, 3], tape[i, 4], f32(tape, i, 5), tape[i, 7], first, stop
            )
        meetings += 1
        meet(sync, meetings, threads)
