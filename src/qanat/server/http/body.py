"""A request's body: received within its bounds of bytes and time, parsed as strict JSON, and read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from qanat.checkpoint.strict_json import parse_json
from qanat.errors import RequestError

__all__ = ["ClientGoneError", "read_json", "refuse_body"]

T = TypeVar("T")

LARGE = 256 * 1024
"""Bytes from which a body is parsed and read in a thread, so that the event loop goes on meanwhile."""
LINGER = 2.0
"""Seconds in which a client may finish sending what is not wanted."""
_CLOSE = {"connection": "close"}  # the rest of the body is not waited for


class ClientGoneError(Exception):
    """The client closed the connection: there is nobody to answer."""


async def read_json(
    scope: Scope, receive: Receive, read: Callable[[Any], T], *, most: int, seconds: float
) -> T:
    """What `read` makes of the JSON value of a body of at most `most` bytes.

    Raises:
        HTTPException: 413, 408 or 415: it is too large, came too slowly, or is compressed.
        RequestError: it is no JSON, or `read` refuses it.
        ClientGoneError: the client did not finish.
    """
    headers = Headers(scope=scope)
    coding = headers.get("content-encoding", "identity")
    if coding.strip().lower() != "identity":
        raise HTTPException(415, "a body with Content-Encoding cannot be read: send it as it is", _CLOSE)
    if int(headers.get("content-length", "0")) > most:  # digits, as h11 has checked
        raise _too_large(most, more=True)
    try:
        async with asyncio.timeout(seconds):
            data = await _read(receive, most)
    except TimeoutError:
        raise HTTPException(
            408, f"the body of the request did not arrive within {seconds:g} s", _CLOSE
        ) from None
    if len(data) >= LARGE:
        return await asyncio.to_thread(lambda: read(_parsed(data)))
    return read(_parsed(data))


async def refuse_body(answer: Response, receive: Receive, send: Send) -> None:
    """Send an answer to a request whose body was not read, and let go of the connection.

    Closed while the client still writes, it would be reset, and the client would never read the answer. So
    what comes is thrown away for a while before the connection is closed.
    """
    headers = answer.raw_headers
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": bytes(answer.body), "more_body": True})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER):
            while (message := await receive())["type"] != "http.disconnect" and message.get("more_body"):
                pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _read(receive: Receive, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        more = message.get("more_body", False)
        if size > most:
            raise _too_large(most, more=more)
        if not more:
            return b"".join(pieces)


def _too_large(most: int, *, more: bool) -> HTTPException:
    words = f"the body of a request may have {most} bytes at most"
    return HTTPException(413, words, _CLOSE if more else None)


def _parsed(data: bytes) -> Any:
    return parse_json(data, "the body", RequestError, "send one JSON object")
