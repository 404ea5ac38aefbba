"""The thread that computes while others wait for events."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Condition, Thread

from qanat.engine.scheduler import Scheduler
from qanat.engine.sequence import Sequence as Running
from qanat.errors import RequestError

__all__ = ["Driver"]


@dataclass(eq=False)
class _Listener:
    """Whoever waits for some sequences."""

    sequences: Sequence[Running]
    notify: Callable[[], object]
    seen: int = 0

    @property
    def version(self) -> int:
        """Grows with every token and every end."""
        return sum(s.output_len + s.done for s in self.sequences)


class Driver:
    """Steps a scheduler whenever something is to do, and notifies those whose sequences have grown.

    The thread begins with the first request, and is a daemon: a program may end without `close`.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        # Replaced, never changed: `_has_news` reads it without this lock, as it runs under the scheduler's.
        self._listeners: tuple[_Listener, ...] = ()
        self._changed = Condition()
        self._closed = False
        self._thread: Thread | None = None

    @contextlib.contextmanager
    def running(self, sequences: Sequence[Running], notify: Callable[[], object]) -> Iterator[None]:
        """Within the block the sequences run, and `notify` is called in this driver's thread when one of
        them has grown or ended; at its end those that still run are cancelled.

        Raises:
            RequestError, QueueFullError: they cannot be queued; or the driver is closed.
        """
        if self._closed:
            raise RequestError("this AsyncLLM is closed: make a new one")
        listener = _Listener(sequences, notify)
        self._scheduler.submit(sequences)
        with self._changed:
            if self._closed:  # meanwhile
                self._scheduler.cancel(sequences)
                raise RequestError("this AsyncLLM is closed: make a new one")
            self._listeners += (listener,)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="qanat-driver", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        try:
            yield
        finally:
            self._scheduler.cancel(sequences)
            with self._changed:
                self._listeners = tuple(x for x in self._listeners if x is not listener)

    def close(self) -> None:
        """End what runs, then the thread. Safe to call twice."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()
        self._fail(RequestError("the AsyncLLM was closed while the request ran"))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and not self._busy():
                    self._changed.wait()
                if self._closed:
                    return
            try:
                self._scheduler.advance(self._has_news)
            except BaseException as error:  # a fault of ours: nobody may wait for ever
                self._fail(error)
                continue
            for listener in self._listeners:
                version = listener.version
                if version != listener.seen:
                    listener.seen = version
                    self._tell(listener)

    def _busy(self) -> bool:
        """Whether somebody waits for a sequence that has not ended; who is slow to take its end is nobody."""
        return any(not s.done for listener in self._listeners for s in listener.sequences)

    def _has_news(self) -> bool:
        return self._closed or not self._busy() or any(x.version != x.seen for x in self._listeners)

    def _fail(self, error: BaseException) -> None:
        for listener in self._listeners:
            self._scheduler.cancel(listener.sequences, error)
            self._tell(listener)

    @staticmethod
    def _tell(listener: _Listener) -> None:
        with contextlib.suppress(RuntimeError):  # its event loop is closed: nobody listens any more
            listener.notify()
