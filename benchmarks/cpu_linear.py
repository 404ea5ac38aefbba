"""How fast the CPU's linear layers are, beside what the machine can do: medians, ceilings in the same run.

.venv/bin/python benchmarks/cpu_linear.py [--threads N] [--out 6144] [--in 2048] [--rows 1,2,4,8,64,512]

One row is bound by memory: GB/s beside the best of several loops that only read. Many rows are bound by the
vector units: Gop/s (a multiplication and an addition are two) beside a loop that only multiplies and adds in
registers. Weights are copied until they exceed any cache, and a call never meets weights that it met lately.
Times are of the calling thread where there is one, so that other processes disturb less.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, prange

from qanat.backends.cpu.linear import Quantised, multiply, multiply_quantised, quantise
from qanat.backends.cpu.packing import PackedBf16, PackedInt8, pack
from qanat.backends.cpu.simd import lane_sum, load_bytes, to_f32, zero_i32
from qanat.backends.cpu.simd.dot import ACTIVATION, SPREADS, dot4, start_sums
from qanat.backends.cpu.simd.features import INSTRUCTION_SET
from qanat.backends.cpu.simd.tile import add_scaled, fma_tile, store_tile, tile_f32

TOTAL = 240 << 20
"""Bytes of weights that are walked through: more than any cache holds."""
ROUNDS = 5


@njit(nogil=True)
def _read(array: Any, begin: int, end: int, streams: int) -> float:
    """Add up bytes begin..end (multiples of 256) as 1, 2 or 4 streams."""
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


@njit(parallel=True, nogil=True)
def read(array: Any, streams: int, threads: int, sums: Any) -> None:
    """Each thread reads its share."""
    if threads == 1:
        sums[0] = _read(array, 0, len(array), streams)
    else:
        for t in prange(threads):
            share = len(array) // 1024 // threads * 1024
            sums[t] = _read(array, t * share, (t + 1) * share, streams)


@njit(nogil=True)
def _multiply_int8(w: Any, x: Any, sums: Any, out: Any, times: int) -> None:
    """Products of one step of weights with four rows, all in L1, and nothing else."""
    like = tile_f32(4, 1)
    part = start_sums(like, sums, 0, 1)
    for i in range(times):
        part = dot4(part, w, (i & 7) * 64, 0, x, (i & 7) * 4, 64)
    store_tile(out, 0, 16, 0, add_scaled(like, part, w.view(np.float32), 0, 0, out, 0, 0))


@njit(nogil=True)
def _multiply_f32(w: Any, x: Any, out: Any, times: int) -> None:
    part = tile_f32(6, 1)
    for i in range(times):
        part = fma_tile(part, w, (i & 7) * 16, 0, x, i & 7, 64)
    store_tile(out, 0, 16, 0, part)


def seconds(work: Callable[[], object], threads: int) -> float:
    """Of one call."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    start = clock()
    work()
    return clock() - start


def ceilings_of_arithmetic() -> dict[str, float]:
    """Gop/s of one thread that multiplies weights in L1 with rows in L1: "int8" and "bf16"."""
    w = np.ones(1024, np.int16 if SPREADS else np.int8)
    x, sums, out = np.ones(1024, ACTIVATION), np.zeros(16, np.int32), np.zeros(1024, np.float32)
    wf, times = np.ones(1024, np.float32), 100_000
    work = {
        "int8": (lambda: _multiply_int8(w, x, sums, out, times), 4 * 64 * 2),
        "bf16": (lambda: _multiply_f32(wf, wf, out, times), 6 * 16 * 2),
    }
    result = {}
    for mode, (call, operations) in work.items():
        call()
        taken = statistics.median(seconds(call, 1) for _ in range(9))
        result[mode] = operations * times / taken / 1e9
    return result


def bench(mode: str, outputs: int, inputs: int, rows: list[int], threads: int, arithmetic: float) -> None:
    """Print a line for each number of rows."""
    rng = np.random.default_rng(0)
    first = pack([rng.standard_normal((outputs, inputs)).astype(np.float32)], mode)
    copies = [
        type(first)(outputs, inputs, **{name: array.copy() for name, array in first.arrays().items()})
        for _ in range(-(-TOTAL // first.nbytes))
    ]
    x = rng.standard_normal((max(rows), inputs)).astype(np.float32)
    quantised = Quantised.empty(len(x), inputs)
    quantise(x, quantised, threads)
    out, sums = np.empty((len(x), first.out_padded), np.float32), np.empty(threads, np.float64)

    def multiplied(n: int) -> Callable[[Any], None]:
        def work(weight: PackedInt8 | PackedBf16) -> None:
            if isinstance(weight, PackedInt8):
                multiply_quantised(quantised, weight, out[:n], threads)
            else:
                multiply(x[:n], weight, out[:n], threads)

        return work

    jobs: dict[str | int, Callable[[Any], None]] = {
        f"read {streams}": lambda weight, s=streams: read(weight.data.view(np.int8), s, threads, sums)
        for streams in (1, 2, 4)
    }
    jobs |= {n: multiplied(n) for n in rows if n < 64}
    many = {n: multiplied(n) for n in rows if n >= 64}
    for work in (jobs | many).values():
        work(copies[0])
    taken: dict[str | int, list[float]] = {name: [] for name in jobs}
    for _ in range(ROUNDS):
        for at in range(len(copies)):
            for turn, (name, work) in enumerate(jobs.items()):
                weight = copies[(at + turn * len(copies) // len(jobs)) % len(copies)]
                taken[name].append(seconds(lambda w=work, c=weight: w(c), threads))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    medians |= {
        n: statistics.median(seconds(lambda w=work: w(copies[0]), threads) for _ in range(ROUNDS))
        for n, work in many.items()
    }
    ceiling = max(first.data.nbytes / medians[name] / 1e9 for name in jobs if isinstance(name, str))
    print(f"\n{mode} [{outputs}, {inputs}], {threads} thread(s), {INSTRUCTION_SET}")
    print(f"ceilings: reading {ceiling:.1f} GB/s, arithmetic {arithmetic:.0f} Gop/s a thread")
    print(f"{'rows':>5}{'GB/s':>8}{'share':>8}{'Gop/s':>9}{'share':>8}")
    for n in rows:
        gb, gop = first.nbytes / medians[n] / 1e9, 2 * n * outputs * inputs / medians[n] / 1e9
        print(f"{n:>5}{gb:>8.1f}{gb / ceiling:>8.0%}{gop:>9.0f}{gop / (arithmetic * threads):>8.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=int, default=6144)
    parser.add_argument("--in", type=int, default=2048, dest="inputs")
    parser.add_argument("--rows", default="1,2,4,8,64,512")
    given = parser.parse_args()
    arithmetic = ceilings_of_arithmetic()
    for mode in ("int8", "bf16"):
        rows = [int(n) for n in given.rows.split(",")]
        bench(mode, given.out, given.inputs, rows, given.threads, arithmetic[mode])


if __name__ == "__main__":
    main()
