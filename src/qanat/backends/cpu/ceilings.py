"""What this machine can do at most, measured: bytes read from memory and operations, per second.

A linear layer of one row is bound by the first, of many rows by the second. Importing this module defines
kernels of its own, so only what measures imports it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from qanat.backends.cpu.kernels.ceilings import F32_STEP, INT8_STEP, multiply_f32, multiply_int8, read
from qanat.backends.cpu.packing import aligned_empty
from qanat.backends.cpu.pool import Pool
from qanat.backends.cpu.simd.dot import ACTIVATION, SPREADS
from qanat.backends.cpu.simd.features import INSTRUCTION_SET

__all__ = ["READ_BYTES", "STREAMS", "Ceilings", "arithmetic", "bandwidth", "measure_ceilings"]

READ_BYTES = 256 << 20
"""How much is read: more than any cache holds."""
STREAMS = (1, 2, 4)
"""The read loops: how many places each thread reads from at once."""
STEPS = 1_000_000
"""Of the arithmetic loops: milliseconds."""


@dataclass(frozen=True)
class Ceilings:
    """The best of several loops, each the median of several rounds."""

    instruction_set: str
    read_gb_s: dict[int, float]
    """Threads -> 1e9 bytes read per second by all of them together."""
    int8_gop_s: dict[int, float]
    """Threads -> 1e9 operations per second with the products of bytes that the kernels use."""
    f32_gop_s: dict[int, float]
    """The same with float32 multiply-adds."""

    @staticmethod
    def medians(measured: Sequence[Ceilings]) -> Ceilings:
        """Figure by figure, of measurements of one machine with the same counts of threads."""

        def median(name: str) -> dict[int, float]:
            return {
                n: statistics.median(getattr(one, name)[n] for one in measured)
                for n in getattr(measured[0], name)
            }

        return Ceilings(
            measured[0].instruction_set, median("read_gb_s"), median("int8_gop_s"), median("f32_gop_s")
        )

    @property
    def best_read_gb_s(self) -> float:
        """The most that any number of threads reads."""
        return max(self.read_gb_s.values())


def bandwidth(threads: int, *, rounds: int = 5, size: int = READ_BYTES) -> float:
    """GB/s that `threads` threads read together from `size` bytes: the best loop's median."""
    array = aligned_empty(size, np.int8)
    array[:] = 1  # untouched pages would all be one page of zeros, which a cache holds
    sums, pool = np.zeros(threads, np.float64), Pool(threads)
    return max(
        size / _median_seconds(partial(pool.run, read, array, streams, sums), rounds) / 1e9
        for streams in STREAMS
    )


def arithmetic(threads: int, *, rounds: int = 5, steps: int = STEPS) -> tuple[float, float]:
    """1e9 operations per second of `threads` threads together: (products of bytes, float32)."""
    w = np.ones(1024, np.int16 if SPREADS else np.int8)
    x, sums = np.ones(1024, ACTIVATION), np.zeros(16, np.int32)
    ones, out, pool = np.ones(1024, np.float32), np.empty(128 * threads, np.float32), Pool(threads)
    int8 = _median_seconds(lambda: pool.run(multiply_int8, w, x, sums, ones, out, steps), rounds)
    f32 = _median_seconds(lambda: pool.run(multiply_f32, ones, ones, out, steps), rounds)
    done = steps * threads / 1e9
    return INT8_STEP * done / int8, F32_STEP * done / f32


def measure_ceilings(threads: int, *, rounds: int = 5, size: int = READ_BYTES) -> Ceilings:
    """All ceilings for one thread and for `threads`; takes about a second once compiled."""
    counts = sorted({1, threads})
    rates = {n: arithmetic(n, rounds=rounds) for n in counts}
    return Ceilings(
        INSTRUCTION_SET,
        {n: bandwidth(n, rounds=rounds, size=size) for n in counts},
        {n: rate[0] for n, rate in rates.items()},
        {n: rate[1] for n, rate in rates.items()},
    )


def _median_seconds(work: Callable[[], object], rounds: int) -> float:
    """Wall time of one call, after one that compiles and warms up."""
    work()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
