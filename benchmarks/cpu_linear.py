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

from qanat.backends.cpu.ceilings import STREAMS, arithmetic
from qanat.backends.cpu.kernels.ceilings import read
from qanat.backends.cpu.linear import Quantised, multiply, multiply_quantised, quantise
from qanat.backends.cpu.packing import PackedInt8, pack
from qanat.backends.cpu.pool import Pool
from qanat.backends.cpu.simd.features import INSTRUCTION_SET
from qanat.backends.cpu.step import Step
from qanat.backends.cpu.tape import Runner, Tape

TOTAL = 240 << 20
"""Bytes of weights that are walked through: more than any cache holds."""
ROUNDS = 5


def seconds(work: Callable[[], object], threads: int) -> float:
    """Of one call."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    start = clock()
    work()
    return clock() - start


def bench(mode: str, outputs: int, inputs: int, rows: list[int], threads: int, ceiling_gop: float) -> None:
    """Print a line for each number of rows."""
    rng = np.random.default_rng(0)
    first = pack([rng.standard_normal((outputs, inputs)).astype(np.float32)], mode)
    copies = [
        type(first)(outputs, inputs, **{name: array.copy() for name, array in first.arrays().items()})
        for _ in range(-(-TOTAL // first.nbytes))
    ]
    x = rng.standard_normal((max(rows), inputs)).astype(np.float32)
    quantised = Quantised.empty(len(x), inputs)
    runner, pool, tape = Runner(mode, threads), Pool(threads), Tape()
    if mode == "int8":
        quantise(tape, x, quantised)
        runner.run(tape, Step())
    out, sums = np.empty((len(x), first.out_padded), np.float32), np.empty(threads, np.float64)

    def multiplied(n: int) -> Callable[[Any], None]:
        tapes: dict[int, Tape] = {}
        for weight in copies:
            tape = tapes[id(weight)] = Tape()
            if isinstance(weight, PackedInt8):
                multiply_quantised(tape, quantised, weight, out[:n])
            else:
                multiply(tape, x[:n], weight, out[:n])
        return lambda weight: runner.run(tapes[id(weight)], Step())

    jobs: dict[str | int, Callable[[Any], None]] = {
        f"read {streams}": lambda weight, s=streams: pool.run(read, weight.data.view(np.int8), s, sums)
        for streams in STREAMS
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
    print(f"ceilings: reading {ceiling:.1f} GB/s, arithmetic {ceiling_gop:.0f} Gop/s a thread")
    print(f"{'rows':>5}{'GB/s':>8}{'share':>8}{'Gop/s':>9}{'share':>8}")
    for n in rows:
        gb, gop = first.nbytes / medians[n] / 1e9, 2 * n * outputs * inputs / medians[n] / 1e9
        print(f"{n:>5}{gb:>8.1f}{gb / ceiling:>8.0%}{gop:>9.0f}{gop / (ceiling_gop * threads):>8.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=int, default=6144)
    parser.add_argument("--in", type=int, default=2048, dest="inputs")
    parser.add_argument("--rows", default="1,2,4,8,64,512")
    given = parser.parse_args()
    rows = [int(n) for n in given.rows.split(",")]
    for mode, ceiling in zip(("int8", "bf16"), arithmetic(1), strict=True):
        bench(mode, given.out, given.inputs, rows, given.threads, ceiling)


if __name__ == "__main__":
    main()
