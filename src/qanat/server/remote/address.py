"""Where a server is: the base URL as people write it, and who can read what is sent there."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit, urlunsplit

from qanat.errors import RequestError

__all__ = ["base_url", "is_private"]

_VERSION = re.compile(r"/v\d+[a-z0-9]*(/|$)")
_ENDPOINT = re.compile(r"/(chat/completions|completions|models|responses)$")


def base_url(url: str) -> str:
    """The URL that `/chat/completions` is put behind: with `/v1`, unless a version stands in it already.

    What is pasted with the path of an endpoint loses it.

    Raises:
        RequestError: it is no URL of HTTP, or holds what does not belong into one.
    """
    try:
        parts = urlsplit(url.strip())
        parts.port  # noqa: B018 - raises if it is no number
    except ValueError as error:
        raise RequestError(f"--url {url}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RequestError(f"--url {url}: write it as http://localhost:8000 or https://example.org/v1")
    if "@" in parts.netloc:
        raise RequestError("--url holds a name or password: give a key with --api-key-env or --api-key-file")
    if parts.query or parts.fragment:
        raise RequestError(f"--url {url}: nothing may follow the path")
    if not url.isascii() or any(c.isspace() or not c.isprintable() for c in url.strip()):
        raise RequestError("--url holds a character that no URL has: write it with %XX")
    try:
        parts.hostname.encode("idna")  # as a socket does, which is late for a sentence
    except UnicodeError:
        raise RequestError(
            f"--url {url}: no host is called that: parts of 1 to 63 characters stand between dots"
        ) from None
    path = _ENDPOINT.sub("", parts.path.rstrip("/")).rstrip("/")
    if not _VERSION.search(path):
        path += "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def is_private(base: str) -> bool:
    """Whether nobody on the way can read what is sent: encrypted, or to this very machine."""
    parts = urlsplit(base)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
