"""A server of somebody else's: it answers with the bytes that a test gives, well-formed or not."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
MODELS = {"data": [{"id": "theirs"}]}


def event(**delta: Any) -> bytes:
    return chunk(choices=[{"index": 0, "delta": delta}])


def chunk(**fields: Any) -> bytes:
    return b"data: %b\n\n" % json.dumps(fields).encode()


def last(reason: str = "stop") -> bytes:
    return chunk(choices=[{"index": 0, "delta": {}, "finish_reason": reason}])


def whole(status: str, body: Any, *headers: str) -> bytes:
    """An answer that is no stream."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


class OtherServer:
    """Every connection gets one answer: `/models` the list, anything else `pieces`, `pause` seconds apart."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = [HEAD, event(content="hello"), last(), b"data: [DONE]\n\n"]
        self.models: bytes = whole("200 OK", MODELS)
        self.queued: list[list[bytes]] = []
        """What the next connections get, before `pieces`."""
        self.pause = 0.0
        self.heads: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.left = threading.Event()
        """Set when a client goes away before its answer has ended."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file:
            head = b"".join(iter(file.readline, b"\r\n")).decode()
            length = next(
                (line for line in head.splitlines() if line.lower().startswith("content-length")), ":0"
            )
            body = file.read(int(length.partition(":")[2]))
            self.heads.append(head)
            try:
                if head.startswith("GET"):
                    connection.sendall(self.models)
                    return
                self.bodies.append(json.loads(body))
                for piece in self.queued.pop(0) if self.queued else self.pieces:
                    connection.sendall(piece)
                    time.sleep(self.pause)
            except OSError:
                self.left.set()


@contextlib.contextmanager
def other_server() -> Iterator[OtherServer]:
    server = OtherServer()
    try:
        yield server
    finally:
        server.close()
