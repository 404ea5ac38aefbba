"""The engine's process: loads a model, answers over the socket it was started with, ends with its server.

Started as `python -m qanat.server.engine_process FD`, a program of its own and no fork: threads and locks of
the server are not copied into it. When the server's end of the socket closes, for whatever reason, so does
this process, at once: it has nothing to put in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import traceback

from qanat.errors import QanatError
from qanat.server.engine_client import EngineClient
from qanat.server.errors import log_bug
from qanat.server.local_engine import LocalEngine
from qanat.server.relay import answer
from qanat.server.wire import (
    Ask,
    Cancel,
    Failed,
    FromEngine,
    Ready,
    Run,
    Start,
    decode_to_engine,
    encode,
    read_frame,
)

__all__ = ["Host", "main"]


class Host:
    """Runs what the server asks for: a task for each request and question."""

    def __init__(self, engine: EngineClient, writer: asyncio.StreamWriter) -> None:
        self._engine = engine
        self._writer = writer
        self.tasks: dict[int, asyncio.Task[None]] = {}

    async def send(self, message: FromEngine) -> None:
        """Write a message; waits while the server is slow to read."""
        self._writer.write(encode(message))
        with contextlib.suppress(ConnectionError):  # the server has gone: whoever reads ends the process
            await self._writer.drain()

    def take(self, message: Run | Ask | Cancel) -> None:
        """Do what a message says."""
        if isinstance(message, Cancel):
            task = self.tasks.get(message.id)
            if task is not None:
                task.cancel()
            return
        task = asyncio.create_task(self._answer(message))
        self.tasks[message.id] = task
        task.add_done_callback(lambda _: self.tasks.pop(message.id))

    async def _answer(self, message: Run | Ask) -> None:
        async with contextlib.aclosing(answer(self._engine, message)) as said:
            async for item in said:
                await self.send(item)


async def _serve(connection: socket.socket) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    data = await read_frame(reader)
    if data is None:
        return
    start = decode_to_engine(data)
    assert isinstance(start, Start)
    # In a thread, so that this one notices meanwhile that the server has gone.
    loading = asyncio.create_task(asyncio.to_thread(LocalEngine, start.options))
    first = asyncio.create_task(read_frame(reader))
    await asyncio.wait({loading, first}, return_when=asyncio.FIRST_COMPLETED)
    if first.done():  # nobody asks for anything before it is ready: the server has gone
        return
    try:
        engine = loading.result()
    except QanatError as error:
        failure = Failed(str(error), mendable=True)
    except MemoryError:
        failure = Failed("out of memory: use a smaller model or context", mendable=True)
    except Exception as error:
        log_bug(error)
        failure = Failed(f"{type(error).__name__}: {error}", mendable=False)
    else:
        host = Host(engine, writer)
        await host.send(Ready(engine.info))
        data = await first
        while data is not None:
            message = decode_to_engine(data)
            assert not isinstance(message, Start)
            host.take(message)
            data = await read_frame(reader)
        return
    writer.write(encode(failure))
    await writer.drain()


def main() -> None:
    """Answer over the socket whose file descriptor is the only argument."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # Sent to a whole group of processes: the server lets requests end, and then closes the socket.
        signal.signal(number, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv[1]))
    code = 1
    try:
        asyncio.get_event_loop_policy().new_event_loop().run_until_complete(_serve(connection))
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)  # not waiting for a thread that computes


if __name__ == "__main__":
    main()
