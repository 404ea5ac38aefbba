"""How linear layers share work among threads, and what they have in common."""

from __future__ import annotations

from qanat.backends.cpu.kernels.jit import inner
from qanat.backends.cpu.simd.memory import load_f32, store_f32
from qanat.backends.cpu.simd.types import LANES

__all__ = ["add_residual", "share"]


@inner
def share(items: int, threads: int, thread: int) -> tuple[int, int]:
    """First item of `thread` and the first after it; shares differ by at most one."""
    return items * thread // threads, items * (thread + 1) // threads


@inner
def add_residual(begin, end, quarter, n, residual, out, ldo):
    """out = residual + out, both flat [n, ldo], in panels begin..end of each of the four quarters."""
    for r in range(n):
        for first in range(r * ldo, r * ldo + 4 * quarter * LANES, quarter * LANES):
            for at in range(first + begin * LANES, first + end * LANES, LANES):
                store_f32(out, at, load_f32(residual, at) + load_f32(out, at))
