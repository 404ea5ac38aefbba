"""The thread that computes while others wait for events."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Condition, Thread

from qanat.engine.scheduler import Scheduler
from qanat.engine.sequence import Sequence
from qanat.errors import RequestError

__all__ = ["Driver", "Listener"]


@dataclass(eq=False)
class Listener:
    """Whoever waits for some sequences. `notify` is called in the computing thread, once for any number of
    reports until `heard` is called."""

    notify: Callable[[], object]
    sequences: list[Sequence] = field(default_factory=list)
    told: bool = False

    def heard(self) -> None:
        """From now on tell again."""
        self.told = False


class Driver:
    """Steps a scheduler whenever something is to do, and notifies those whose sequences have grown.

    The thread begins with the first request, and is a daemon: a program may end without `close`.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._listeners: set[Listener] = set()
        self._news: deque[Listener] = deque()  # whose sequences have grown
        self._changed = Condition()
        self._closed = False
        self._thread: Thread | None = None
        self._process = os.getpid()

    def report(self, listener: Listener) -> None:
        """A sequence of this listener has grown or ended. Called by whoever computes, in the middle of it."""
        if not listener.told:
            listener.told = True
            self._news.append(listener)

    @contextlib.contextmanager
    def running(self, listener: Listener) -> Iterator[None]:
        """Within the block the listener's sequences run; at its end those that still run are cancelled.

        Raises:
            RequestError: they could never run; or the driver is closed, or another process's.
            QueueFullError: they cannot be queued now.
        """
        if os.getpid() != self._process:
            raise RequestError("this AsyncLLM belongs to the process that forked this one: make a new one")
        if self._closed:
            raise RequestError("this AsyncLLM is closed: make a new one")
        self._scheduler.submit(listener.sequences)
        with self._changed:
            if self._closed:  # meanwhile
                self._scheduler.cancel(listener.sequences)
                raise RequestError("this AsyncLLM is closed: make a new one")
            self._listeners.add(listener)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="qanat-driver", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        try:
            yield
        finally:
            self._scheduler.cancel(listener.sequences)
            with self._changed:
                self._listeners.discard(listener)

    def close(self) -> None:
        """End what runs, then the thread. Safe to call twice."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and os.getpid() == self._process:
            thread.join()
        self._fail(RequestError("the AsyncLLM was closed while the request ran"))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._closed or self._news or self._scheduler.busy):
                    self._changed.wait()
                if self._closed:
                    return
            try:
                self._scheduler.advance(self._has_news)
            except BaseException as error:  # a fault of ours: nobody may wait for ever
                self._fail(error)
            self._tell()

    def _has_news(self) -> bool:
        return self._closed or bool(self._news) or not self._scheduler.busy

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            listeners = list(self._listeners)
        for listener in listeners:
            self._scheduler.cancel(listener.sequences, error)
        self._tell()

    def _tell(self) -> None:
        while self._news:
            with contextlib.suppress(RuntimeError):  # its event loop is closed: nobody listens any more
                self._news.popleft().notify()
