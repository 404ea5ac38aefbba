"""How a server behaves, and the bounds that it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["ServerSettings"]


@dataclass(frozen=True)
class ServerSettings:
    """What `qanat serve` was told, and limits that seldom need another value. Times in seconds."""

    names: tuple[str, ...] = ("pocket",)
    """Under which clients may ask for the model; the first is the one that answers carry."""
    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes any that is free."""
    key_file: Path | None = None
    origins: tuple[str, ...] = ()
    """Whose pages may use the server from a browser; "*" is anybody's."""
    most_requests: int = 72
    """Answered or queued at once; more are refused with 429."""
    most_questions: int = 8
    """The same for /tokenize and its like."""
    log: str = "none"
    """Of requests, to the standard output: `none`, `text` or `json`."""
    request_timeout: float | None = None
    """For an answer, from its request on; None: no limit."""
    drain: float = 30.0
    """That requests under way have to end in, once the server is told to stop."""
    keep_alive: float = 10.0
    """Of silence in a stream, until a comment is sent."""
    stall: float = 60.0
    """That a client may take to send a request, or to read what it was sent."""
    most_body: int = 16 * 1024 * 1024
    """Bytes of a request's body."""
    most_head: int = 32 * 1024
    """Bytes of a request's line and headers."""
    most_connections: int = 1024
