"""Server-sent events: objects as they come, a comment when nothing came for long, an error as the last."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, TypeVar

import msgspec
from starlette.types import Send

from qanat.server.errors import error_response
from qanat.server.http.replies import response_headers

__all__ = ["EventStream", "with_pauses"]

T = TypeVar("T")

_HEADERS = {**response_headers("text/event-stream; charset=utf-8"), "x-accel-buffering": "no"}
COMMENT = b": waiting\n\n"
DONE = b"data: [DONE]\n\n"
_encode = msgspec.json.Encoder().encode


class EventStream:
    """The body of one answer.

    Args:
        send: ASGI's.
        stall: seconds that the client may take to read what it was sent; then TimeoutError.
    """

    def __init__(self, send: Send, *, stall: float) -> None:
        self._send = send
        self._stall = stall
        self.begun = False

    async def begin(self) -> None:
        """Answer 200: from here on errors are events."""
        self.begun = True
        headers = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def objects(self, objects: Sequence[Any]) -> None:
        """An event for each, all in one write."""
        if objects:
            await self._write(b"".join([b"data: %b\n\n" % _encode(item) for item in objects]))

    async def comment(self) -> None:
        """Something that clients skip, so that nobody takes the connection for dead."""
        await self._write(COMMENT)

    async def error(self, error: Exception) -> None:
        """The last event of an answer that could not be finished; no [DONE] follows it."""
        data = json.dumps(error_response(error)[1]).encode()
        await self._write(b"data: %b\n\n" % data)
        await self._write(b"", more=False)

    async def done(self) -> None:
        """The end of an answer that is complete."""
        await self._write(DONE, more=False)

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(self._stall):
            await self._send({"type": "http.response.body", "body": data, "more_body": more})


async def with_pauses(items: AsyncIterator[T], seconds: float) -> AsyncGenerator[T | None, None]:
    """The items, and None whenever nothing came for so many seconds."""
    task = asyncio.ensure_future(_next(items))
    try:
        while True:
            done, _ = await asyncio.wait({task}, timeout=seconds)
            if not done:
                yield None
                continue
            for item in task.result():  # none at the end
                yield item
                break
            else:
                return
            task = asyncio.ensure_future(_next(items))
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task


async def _next(items: AsyncIterator[T]) -> list[T]:
    try:
        return [await anext(items)]
    except StopAsyncIteration:
        return []
