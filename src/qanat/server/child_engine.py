"""An engine in a process of its own, as `EngineClient`: one life of it, from its start to its death."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

import qanat
from qanat.engine.reply import ReplyChunk
from qanat.engine.request_options import RequestOptions
from qanat.errors import QanatError
from qanat.server.engine_client import (
    Answer,
    EngineOptions,
    ModelInfo,
    Question,
    Request,
    Running,
)
from qanat.server.errors import RelayedError, UnavailableError
from qanat.server.wire import (
    Answered,
    Ask,
    Cancel,
    Chunk,
    Ended,
    Failed,
    FromEngine,
    Queued,
    Ready,
    Refused,
    Run,
    Start,
    ToEngine,
    decode_from_engine,
    encode,
    pack_question,
    pack_request,
    read_frame,
)

__all__ = ["ChildEngine", "LoadError"]

MOURNING = 5.0
"""Seconds that a process may take to end after its socket was closed, before it is killed."""


class LoadError(QanatError):
    """An engine's process could not make itself ready.

    Attributes:
        mendable: whether the user can do something about it; else it is a bug.
    """

    def __init__(self, message: str, mendable: bool) -> None:
        super().__init__(message)
        self.mendable = mendable


class ChildEngine:
    """An engine that is loaded and answers. Made by `start`."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        info: ModelInfo,
    ) -> None:
        self.info = info
        self._process = process
        self._reader = reader
        self._writer = writer
        self._numbers = 0
        self._waiting: dict[int, asyncio.Queue[FromEngine | None]] = {}  # None: the process has died
        self._alive = True
        self.stopping = False
        """Whether it is about to be ended on purpose, which whoever still waits is told."""

    @property
    def state(self) -> str:
        """`ready` or `dead`."""
        return "ready" if self._alive else "dead"

    @classmethod
    async def start(cls, options: EngineOptions) -> ChildEngine:
        """Start a process and wait until its model is loaded. LoadError.

        Cancelled, it takes the process along.
        """
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                # -P: no module of the folder we stand in is taken for one of the library's.
                *(sys.executable, "-P", "-m", "qanat.server.engine_process", str(theirs.fileno())),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                env=_environment(),
            )
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        try:
            writer.write(encode(Start(options)))
            data = await read_frame(reader)
            first = None if data is None else decode_from_engine(data)
            if isinstance(first, Ready):
                return cls(process, reader, writer, first.info)
            if isinstance(first, Failed):
                raise LoadError(first.message, first.mendable)
            raise LoadError(f"the engine's process died while it loaded ({await _end(process)})", True)
        except BaseException:
            writer.close()
            await _end(process)
            raise

    async def listen(self) -> str:
        """Hand out what the process says until it has ended, and tell how it did.

        Whoever waits for something of it then gets an UnavailableError. Cancelled, it ends the process.
        """
        try:
            while (data := await read_frame(self._reader)) is not None:
                message = decode_from_engine(data)
                assert not isinstance(message, Ready | Failed)
                queue = self._waiting.get(message.id)
                if queue is not None:  # else its request was cancelled
                    queue.put_nowait(message)
        except msgspec.ValidationError as error:
            return f"it sent what is no message: {error}"
        finally:
            self._alive = False
            self._writer.close()
            for queue in self._waiting.values():
                queue.put_nowait(None)
            how = await _end(self._process)
        return how

    @asynccontextmanager
    async def run(self, request: Request, options: RequestOptions) -> AsyncIterator[Running]:
        """As `EngineClient.run`."""
        with self._numbered() as (number, queue):
            packed = pack_request(request)
            ended = False

            async def chunks() -> AsyncIterator[ReplyChunk]:
                nonlocal ended
                while isinstance(message := await self._next(queue), Chunk):
                    yield message.chunk
                assert isinstance(message, Ended)
                ended = True

            try:
                await self._send(Run(number, packed, options))
                message = await self._next(queue)
                assert isinstance(message, Queued)
                yield Running(message.echoed, chunks())
            finally:
                if not ended and self._alive:
                    # Not awaited: a task that is cancelled must not stop before it has said so.
                    self._writer.write(encode(Cancel(number)))

    async def ask(self, question: Question) -> Answer:
        """As `EngineClient.ask`."""
        with self._numbered() as (number, queue):
            await self._send(Ask(number, pack_question(question)))
            message = await self._next(queue)
            assert isinstance(message, Answered)
            return message.answer

    @contextlib.contextmanager
    def _numbered(self) -> Iterator[tuple[int, asyncio.Queue[FromEngine | None]]]:
        """A number that nobody else has, and the queue of what is said about it."""
        if not self._alive:
            raise self._gone()
        self._numbers += 1
        number, queue = self._numbers, asyncio.Queue[FromEngine | None]()
        self._waiting[number] = queue
        try:
            yield number, queue
        finally:
            del self._waiting[number]

    async def _send(self, message: ToEngine) -> None:
        try:
            self._writer.write(encode(message))
            await self._writer.drain()
        except ConnectionError:
            raise self._gone() from None

    def _gone(self) -> UnavailableError:
        if self.stopping:
            return UnavailableError("the server was stopped before the request had ended", "stopping")
        return UnavailableError("the engine's process died before the request had ended", "engine_dead")

    async def _next(self, queue: asyncio.Queue[FromEngine | None]) -> FromEngine:
        message = await queue.get()
        if message is None:
            raise self._gone()
        if isinstance(message, Refused):
            raise RelayedError(message.status, message.body)
        return message


def _environment() -> dict[str, str]:
    """Ours, and where this qanat lies: the child must be the same, wherever it is started from."""
    paths = [str(Path(qanat.__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


async def _end(process: asyncio.subprocess.Process) -> str:
    """Wait for a process whose socket is closed, and tell how it ended; one that hangs is killed."""
    try:
        code = await asyncio.wait_for(process.wait(), MOURNING)
    except TimeoutError:
        process.kill()
        code = await process.wait()
    return f"signal {-code}" if code < 0 else f"exit code {code}"
