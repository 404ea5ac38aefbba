"""Single instructions, run by as many threads as a test wants."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from qanat.backends.cpu.step import Step
from qanat.backends.cpu.tape import Runner, Tape


@cache
def runner(mode: str, threads: int) -> Runner:
    return Runner(mode, threads)


def on_tape(mode: str, threads: int, write: Callable[[Tape], None], step: Step | None = None) -> None:
    """Run what `write` writes. Kernels of `mode`; see `conftest.py` for small tapes."""
    tape = Tape()
    write(tape)
    runner(mode, threads).run(tape, step or Step())
