"""How linear layers share work among threads, and what they have in common."""

from __future__ import annotations

from qanat.backends.cpu.kernels.jit import inlined, inner
from qanat.backends.cpu.simd.memory import load_f32, store_f32
from qanat.backends.cpu.simd.types import LANES

__all__ = ["add_residual", "pieces", "share"]


@inner
def share(items: int, threads: int, thread: int) -> tuple[int, int]:
    """First item of `thread` and the first after it; shares differ by at most one."""
    return items * thread // threads, items * (thread + 1) // threads


@inlined
def pieces(items, rows, threads):
    """Into how many pieces a linear layer's panels are cut for threads to take one after the other.

    Threads that are held up take fewer. Many rows make a piece long enough by itself.
    """
    return min(items, threads * (16 if rows < 16 else 6)) if threads > 1 else min(items, 1)


@inner
def add_residual(begin, end, quarter, n, residual, out, ldo):
    """out = residual + out, both flat [n, ldo], in panels begin..end of each of the four quarters."""
    for r in range(n):
        for first in range(r * ldo, r * ldo + 4 * quarter * LANES, quarter * LANES):
            for at in range(first + begin * LANES, first + end * LANES, LANES):
                store_f32(out, at, load_f32(residual, at) + load_f32(out, at))
