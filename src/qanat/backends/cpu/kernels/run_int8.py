"""A whole step with int8 weights and activations, keys and values in bfloat16.

One call, and one meeting of the threads after each operation.
"""

from __future__ import annotations

from qanat.backends.cpu.kernels import mixing
from qanat.backends.cpu.kernels.jit import entry
from qanat.backends.cpu.kernels.linear_int8 import linear_int8
from qanat.backends.cpu.kernels.norm import rms_norm
from qanat.backends.cpu.kernels.operands import activations, f32, i8, i32, number, u16
from qanat.backends.cpu.kernels.operations import ATTENTION, DELTA, EMBED, LINEAR, NORM, QUANTISE, SWIGLU
from qanat.backends.cpu.kernels.packing import rows_int8
from qanat.backends.cpu.kernels.quantise import quantise, swiglu_quantise
from qanat.backends.cpu.kernels.share import share
from qanat.backends.cpu.kernels.sync import meet

__all__ = ["run_int8"]

delta, attention = mixing.delta, mixing.attention


@entry
def run_int8(
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
            # q, ldq, scales, sums, rows, weights, weight scales, groups, out, ldo, residual
            linear_int8(activations(tape, i, 1), tape[i, 3], f32(tape, i, 4), i32(tape, i, 6), tape[i, 8],
                        i8(tape, i, 9), u16(tape, i, 11), tape[i, 13], f32(tape, i, 14), tape[i, 16],
                        f32(tape, i, 17), sync, i, threads)  # fmt: skip
        elif operation == QUANTISE:
            # x, ldx, rows, columns, gain or nothing, eps, q, ldq, scales, sums
            quantise(f32(tape, i, 1), tape[i, 3], tape[i, 4], tape[i, 5], f32(tape, i, 6), number(tape, i, 8),
                     activations(tape, i, 9), tape[i, 11], f32(tape, i, 12), i32(tape, i, 14),
                     thread, threads)  # fmt: skip
        elif operation == SWIGLU:
            # joint, stride, column of up, rows, columns, q, ldq, scales, sums
            swiglu_quantise(f32(tape, i, 1), tape[i, 3], tape[i, 4], tape[i, 5], tape[i, 6],
                            activations(tape, i, 7), tape[i, 9], f32(tape, i, 10), i32(tape, i, 12),
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
                tape, i, u16(tape, i, 8), u16(tape, i, 10), attention_sizes, starts, cache_len, pages, cos,
                sin, plan, flags[1], work, sync, meetings, thread, threads,
            )  # fmt: skip
        elif operation == EMBED:
            # weights, weight scales, groups, columns, out, ldo
            first, stop = share(len(tokens), threads, thread)
            rows_int8(tokens, i8(tape, i, 1), u16(tape, i, 3), tape[i, 5], tape[i, 6], f32(tape, i, 7),
                      tape[i, 9], first, stop)  # fmt: skip
        meetings += 1
        meet(sync, meetings, threads)
