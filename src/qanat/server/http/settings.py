"""How a server behaves, and the bounds that it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qanat.errors import RequestError

__all__ = ["ServerSettings", "read_names", "read_origin"]


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


def read_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names that clients may ask for a model by. RequestError if they could not."""
    if any(not name.strip() for name in names):
        raise RequestError("--served-model-name is blank: clients could not ask for it")
    return tuple(names)


def read_origin(origin: str, *, keys: bool) -> str:
    """An origin as browsers write it.

    Args:
        origin: what was typed; "*" is any.
        keys: whether clients must show one.

    Raises:
        RequestError: it is no origin, or would let anybody in.
    """
    if origin == "*":
        if not keys:
            raise RequestError(
                "--allow-origin '*' lets every page that a browser here opens use the model: name the sites, "
                "or give --api-key-file as well"
            )
        return origin
    scheme, separator, host = origin.partition("://")
    if scheme not in ("http", "https") or not separator or not host or any(c in host for c in "/?#@ "):
        raise RequestError(
            f"--allow-origin {origin}: write it as https://example.org, with nothing after the name"
        )
    return origin.lower()
