"""Ctrl-C in the middle of a step waits for its end: half a step would leave threads waiting for ever.

Python runs a signal's handler between any two instructions of the main thread. A scheduler that is told to
step, threads that are being woken and a compiled call that is being prepared are all states nobody may leave
halfway. A step is short; where Python code waits for other threads' steps, interrupts come at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["interrupts_deferred"]


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """SIGINT is handled at the end, by the handler that was there. Only the main thread gets signals."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])
