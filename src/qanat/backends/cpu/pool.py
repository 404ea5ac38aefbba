"""Threads that compute together: they sleep between steps, and meet within one (`kernels.sync`).

A kernel for the pool has none of Numba's own parallel loops. It takes its thread's number and how many there
are, and every thread runs the same call. A sleeping thread waits for a lock, which costs nothing.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["Pool"]


class _Helper:
    """One more thread: wakes, runs what it is given, says so."""

    def __init__(self, number: int, threads: int) -> None:
        self.number, self.threads = number, threads
        self.go, self.done = threading.Lock(), threading.Lock()
        self.go.acquire()
        self.work: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
        self.error: BaseException | None = None
        threading.Thread(target=self._serve, name=f"qanat-{number}", daemon=True).start()

    def start(self, kernel: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Begin; the last call must have been waited for."""
        self.done.acquire()
        self.work = kernel, args
        self.go.release()

    def wait(self) -> None:
        """Until it sleeps again; raises what the kernel raised."""
        with self.done:
            error, self.error = self.error, None
        if error is not None:
            raise error

    def end(self) -> None:
        """Let the thread go."""
        self.work = None
        self.go.release()

    def _serve(self) -> None:
        while True:
            self.go.acquire()
            if self.work is None:
                return
            kernel, args = self.work
            try:
                kernel(self.number, self.threads, *args)
            except BaseException as error:  # handed to the thread that waits
                self.error = error
            self.work = None
            del kernel, args  # a sleeping thread keeps no arrays alive
            self.done.release()


class Pool:
    """`threads` threads, one of them the caller's.

    Only one thread at a time may call. The threads end with the pool. A forked process has none of its
    parent's threads, so it gets new ones.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._helpers = [_Helper(number, self.threads) for number in range(1, self.threads)]
        weakref.finalize(self, _end, self._process, self._helpers)

    def run(self, kernel: Callable[..., Any], *args: Any) -> None:
        """kernel(thread, threads, *args) on every thread; returns when all are done."""
        self.begin(kernel, *args)
        self.wait()

    def begin(self, kernel: Callable[..., Any], *args: Any) -> None:
        """The same for a kernel that ends in a meeting of all threads.

        What it computes is there when this returns, although a helper may not sleep yet: `wait` before the
        memory that threads meet in is used again.
        """
        if self._process != os.getpid():
            self._start()
        for helper in self._helpers:
            helper.start(kernel, args)
        kernel(0, self.threads, *args)

    def wait(self) -> None:
        """Until all helpers sleep."""
        if self._process != os.getpid():
            self._start()
        for helper in self._helpers:
            helper.wait()


def _end(process: int, helpers: list[_Helper]) -> None:
    if process == os.getpid():
        for helper in helpers:
            helper.end()
