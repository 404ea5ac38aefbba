"""A signal in the middle of a step waits for its end: half a step would leave threads waiting for ever.

Python runs a signal's handler between any two instructions of the main thread, and a handler may raise:
Ctrl-C's does, and so do time limits made of SIGALRM and servers that leave on SIGTERM. A scheduler that is
told to step, threads that are being woken and a compiled call that is being prepared are all states that
nobody may leave halfway. A step is short; where Python code waits for other threads' steps, signals come at
once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

__all__ = ["interrupts_deferred"]

_NAMES = ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGVTALRM", "SIGPROF")
DEFERRED = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
"""Those that programs give handlers written in Python."""


Came = list[tuple[Callable[..., Any], int, FrameType | None]]


def _note(came: Came, handler: Callable[..., Any], number: int, frame: FrameType | None) -> None:
    came.append((handler, number, frame))


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Signals are handled at the end, by the handlers that were there. Only the main thread gets them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: Came = []
    handlers = {number: signal.getsignal(number) for number in DEFERRED}
    kept = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number, handler in kept.items():
        signal.signal(number, partial(_note, came, handler))
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        for handler, number, frame in came:
            handler(number, frame)
