"""Every request has an id, is counted, and may get a line in a log: what it was and how it ended, never what
it said.

The id is the client's `X-Request-Id`, or one of ours, and goes back with the answer.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from prometheus_client import Counter
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qanat.errors import QanatError
from qanat.server.errors import error_response

__all__ = ["ENTRY", "GONE", "ID_HEADER", "AccessLog", "Entry", "as_json", "as_text", "to_stdout"]

ENTRY = "qanat.entry"
"""Where in the scope a request's `Entry` lies."""
GONE = 499
"""The status, as nginx has it, of a request whose client went away."""
ID_HEADER = "x-request-id"
_ID = re.compile(r"[A-Za-z0-9._:+=/-]{1,128}")
_PLAIN = re.compile(r"[!#-\[\]-~]+")
"""What stands in a line as it is: printable ASCII without blanks, quotes and backslashes."""
MOST_PATH = 256
"""Characters of a path in a log."""


@dataclass
class Entry:
    """What is noted of a request."""

    id: str
    client: str
    method: str | None
    """None, as the path: what came was no request of HTTP."""
    path: str | None
    begun: float
    """Seconds since 1970."""
    status: int | None = None
    seconds: float = 0.0
    """From its head to the end of its answer."""
    stream: bool | None = None
    """Of requests for text: whether it is answered as a stream."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    error: str | None = None
    """Why it ended with an error, in a word."""

    def __post_init__(self) -> None:
        self._begin = time.perf_counter()
        self.refused: int | None = None
        """The status that the protocol has answered with in the place of who else would."""

    @property
    def elapsed(self) -> float:
        """Seconds until now."""
        return time.perf_counter() - self._begin

    def count(self, usage: dict[str, Any]) -> None:
        """Note the usage of an answer."""
        self.prompt_tokens = usage["prompt_tokens"]
        self.cached_tokens = usage["prompt_tokens_details"]["cached_tokens"]
        self.completion_tokens = usage["completion_tokens"]

    def fail(self, error: Exception) -> None:
        """Note an error: the code that the client is told, or the type of a bug."""
        told = error_response(error)[1]["error"]
        bug = not isinstance(error, QanatError)
        self.error = type(error).__name__ if bug else told["code"] or told["type"]

    def told(self) -> dict[str, Any]:
        """What is known of it, in the order of a line."""
        time_ = datetime.fromtimestamp(self.begun, UTC).isoformat(timespec="milliseconds")
        rest = {
            field.name: value
            for field in fields(self)
            if field.name != "begun" and (value := getattr(self, field.name)) is not None
        }
        return {"time": time_.replace("+00:00", "Z"), **rest, "seconds": round(self.seconds, 4)}


Write = Callable[[Entry], None]


class AccessLog:
    """The outermost layer.

    Args:
        app: what answers.
        answers: counts answers by path and status.
        paths: that are counted by name; a client must not make up labels.
        write: is handed the entry of each request that has ended; None: nothing is written.
    """

    def __init__(
        self, app: ASGIApp, *, answers: Counter, paths: frozenset[str], write: Write | None = None
    ) -> None:
        self._app = app
        self._answers = answers
        self._paths = paths
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":  # nothing else is offered
            return
        entry = self.entry(scope)

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                entry.status = message["status"]
                MutableHeaders(scope=message)[ID_HEADER] = entry.id
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            self.end(entry, entry.refused or entry.status or GONE, scope["path"])

    def entry(self, scope: Scope) -> Entry:
        """The entry of a request, made when it is first asked for."""
        if ENTRY not in scope:
            scope[ENTRY] = Entry(
                id=_identity(Headers(scope=scope).get(ID_HEADER)),
                client=scope["client"][0] if scope["client"] else "",
                method=scope["method"],
                path=scope["path"][:MOST_PATH],
                begun=time.time(),
            )
        entry: Entry = scope[ENTRY]
        return entry

    def stranger(self, client: str) -> Entry:
        """An entry for what is no request of HTTP."""
        return Entry(_identity(None), client, None, None, time.time())

    def over(self, app: ASGIApp) -> AccessLog:
        """The same log and counts for another application."""
        return AccessLog(app, answers=self._answers, paths=self._paths, write=self._write)

    def end(self, entry: Entry, status: int, path: str | None = None) -> None:
        """Count an answer, and write its line."""
        entry.status, entry.seconds = status, entry.elapsed
        self._answers.labels(path if path in self._paths else "other", str(status)).inc()
        if self._write is not None:
            self._write(entry)


def _identity(given: str | None) -> str:
    """The client's, if it is fit for a log and a header."""
    return given if given is not None and _ID.fullmatch(given) else f"req-{secrets.token_hex(12)}"


def as_json(entry: Entry) -> str:
    """A line that programs read."""
    return json.dumps(entry.told(), separators=(",", ":"))


def as_text(entry: Entry) -> str:
    """A line that people read: words or JSON strings between blanks; `-` is a method or path unknown."""
    told = entry.told()
    client, method, path = _word(entry.client), _word(entry.method), _word(entry.path)
    first = f"{told['time']} {client} {method} {path} {entry.status} {entry.seconds:.3f}s"
    names = ("id", "stream", "prompt_tokens", "cached_tokens", "completion_tokens", "error")
    return " ".join([first, *(f"{name}={_word(str(told[name]))}" for name in names if name in told)])


def _word(text: str | None) -> str:
    if text is None:
        return "-"
    return text if _PLAIN.fullmatch(text) and text != "-" else json.dumps(text)


def to_stdout(form: Callable[[Entry], str]) -> Write:
    """Writes each entry as a line to the standard output. One that nobody reads any more is no error."""

    def write(entry: Entry) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(form(entry) + "\n")
            sys.stdout.flush()

    return write
