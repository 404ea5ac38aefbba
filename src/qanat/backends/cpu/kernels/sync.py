"""How the threads of a step meet: one counter in shared memory, which only grows during the step.

`sync` is an int64 array that is zeroed before the step. Place 0 counts arrivals; each of the places after it
hands out the work of one instruction.
"""

from __future__ import annotations

from qanat.backends.cpu.kernels.jit import inlined, inner
from qanat.backends.cpu.simd.atomic import atomic_add, atomic_load, give_way, pause

__all__ = ["APART", "claim", "meet"]

APART = 8
"""Elements between counters: each has a cache line of its own."""
PATIENCE = 200
"""Looks at the counter before a waiting thread offers its core to others: some microseconds.

Offering costs 0.4 us where nobody takes it. Where another thread of the step would, waiting on holds up what
is waited for: with more threads than free cores, each meeting takes that long once for every thread.
"""


@inner
def meet(sync, meetings, threads):
    """Wait until all threads have come to their meeting number `meetings`, counted from one."""
    if threads == 1:
        return
    atomic_add(sync, 0, 1)
    looks = 0
    while atomic_load(sync, 0) < meetings * threads:
        looks += 1
        if looks < PATIENCE:
            pause()
        else:
            give_way()


@inlined
def claim(sync, instruction):
    """The next piece of an instruction's work that no thread has taken, counted from zero."""
    return atomic_add(sync, (instruction + 1) * APART, 1)
