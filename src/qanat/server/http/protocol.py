"""uvicorn's HTTP/1.1 over h11, with a limit of time for heads and with errors in our form."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from qanat.server.errors import error_object

__all__ = ["HEAD_SECONDS", "Protocol"]

HEAD_SECONDS = 20.0
"""From the first byte of a request's head to its last, and from a connection to its first request."""


class Protocol(H11Protocol):
    """One connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come."""
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client, or we, closed it."""
        super().connection_lost(exc)
        self._stop_watching()

    def _watch_head(self) -> None:
        """The clock runs while a head is expected that has begun, or is the first."""
        begun = self.cycle is None or bool(self.conn.trailing_data[0])
        if self.conn.their_state is not h11.IDLE or not begun:
            self._stop_watching()
        elif self._patience is None:
            self._patience = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_watching(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or has too long a head (431), and close; called in the error's handler."""
        problem = sys.exc_info()[1]
        status = getattr(problem, "error_status_hint", 400)
        words = "the head of the request is too long" if status == 431 else "this is not HTTP/1.1"
        body = json.dumps(error_object(status, words)).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        try:
            for event in (
                h11.Response(status_code=status, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # in the middle of an answer: all that is left is to close
            pass
        self.transport.close()
