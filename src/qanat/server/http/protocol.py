"""uvicorn's HTTP/1.1 over h11, with more bounds of time, number and bytes, and with errors in our form."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, cast

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from qanat.server.errors import error_object
from qanat.server.http import body
from qanat.server.http.access_log import ID_HEADER, AccessLog
from qanat.server.http.replies import RETRY, refusal

__all__ = ["HEAD_SECONDS", "PIPELINED", "Protocol"]

HEAD_SECONDS = 20.0
"""From the first byte of a request's head to its last, and from a connection to its first request."""
PIECE = 4096
"""Bytes of a head that h11 gets at once: it holds only what is not complete yet against its bound."""
PIPELINED = 64 * 1024
"""Bytes that a client may send ahead while its request is answered. More is thrown away, and the connection
closed behind the answer: that is how HTTP/1.1 says that the rest must be asked again."""


class Protocol(H11Protocol):
    """One connection.

    uvicorn's `limit_concurrency` counts connections here: one beyond it is told so, and closed. The
    application must be an `AccessLog`: what is refused here has an id and a line too.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._patience: asyncio.TimerHandle | None = None
        self._deaf = False
        """Whether what comes is thrown away, because the connection is about to be closed."""
        self._most, self.limit_concurrency = self.limit_concurrency, None
        assert isinstance(self.app, AccessLog)
        self._log: AccessLog = self.app

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come."""
        super().connection_made(transport)
        if self._most is not None and len(self.connections) > self._most:
            self.app = self._log.over(_crowded)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        while data and not self._deaf:
            size = len(data) if self.conn.their_state is h11.SEND_BODY else PIECE
            self._receive(data[:size])
            data = data[size:]
        self._watch_head()

    def _receive(self, data: bytes) -> None:
        if self._answering() and len(self.conn.trailing_data[0]) + len(data) > PIPELINED:
            self._deaf, self.cycle.keep_alive = True, False
            return
        super().data_received(data)
        if self._answering() and not self.transport.is_closing():
            # uvicorn stops reading when a next request is there already, and then would not notice that the
            # client has gone.
            self.flow.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client, or we, closed it."""
        super().connection_lost(exc)
        self._stop_watching()

    def _answering(self) -> bool:
        """Whether a request has come whole, and its answer has not gone whole."""
        return self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body

    def _watch_head(self) -> None:
        """The clock runs while a head is expected that has begun, or is the first."""
        begun = self.cycle is None or bool(self.conn.trailing_data[0])
        if self._deaf or self.conn.their_state is not h11.IDLE or not begun:
            self._stop_watching()
        elif self._patience is None:
            self._patience = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_watching(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        if self.conn.trailing_data[0]:
            self._refuse(408, f"the head of the request did not arrive within {HEAD_SECONDS:g} s")
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or has too long a head (431); called in the handler of h11's error."""
        problem = sys.exc_info()[1]
        if getattr(problem, "error_status_hint", 400) == 431:
            self._refuse(431, "the head of the request is too long")
        else:
            self._refuse(400, f"this is not HTTP/1.1 as it is understood here: {str(problem)[:120]}")

    def _refuse(self, status: int, words: str) -> None:
        """Answer, and close. As in `refuse_body` the client may first finish sending, and read why."""
        asked = self.cycle is not None and not self.cycle.response_complete
        if asked:  # a body that cannot be read on
            entry = self._log.entry(cast(Scope, self.cycle.scope))
            entry.refused = None if self.cycle.response_started else status
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        else:
            entry = self._log.stranger(self.client[0] if self.client else "")
        data = json.dumps(error_object(status, words)).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(data))),
            ("connection", "close"),
            (ID_HEADER, entry.id),
        ]
        try:
            for event in (
                h11.Response(status_code=status, headers=headers),
                h11.Data(data=data),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # in the middle of an answer: all that is left is to close
            self.transport.close()
            return
        if not asked:
            self._log.end(entry, status)
        self._deaf = True
        self.transport.write_eof()
        self.loop.call_later(body.LINGER, self.transport.close)


async def _crowded(scope: Scope, receive: Receive, send: Send) -> None:
    """What there are too many connections for."""
    answer = refusal(
        503,
        "there are as many connections as are taken: try again later, or close some",
        "too_many_connections",
        {"retry-after": RETRY, "connection": "close"},
    )
    await body.refuse_body(answer, receive, send)
