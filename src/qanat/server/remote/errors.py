"""What can go wrong with a server, as sentences that say what to do."""

from __future__ import annotations

import json
from typing import Any

from qanat.errors import QanatError

__all__ = ["RemoteError", "error_message", "refused", "shortened"]

MOST_MESSAGE = 500
"""Characters of a server's own words that are shown."""
_BY_CODE = {"context_length_exceeded": "/clear begins anew, /set max_tokens N asks for less"}


class RemoteError(QanatError):
    """A server cannot be reached, refuses, or sends what is no answer."""


def error_message(value: Any) -> str | None:
    """The words in OpenAI's error object, or in one of its relatives; None if there are none."""
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    for found in (error, value):
        if isinstance(found, dict):
            words = found.get("message") or found.get("detail")
            if isinstance(words, str) and words.strip():
                code = found.get("code")
                hint = _BY_CODE.get(code) if isinstance(code, str) else None
                return shortened(words) + (f" ({hint})" if hint else "")
    return shortened(error) if isinstance(error, str) and error.strip() else None


def refused(status: int, body: bytes, headers: dict[str, str], *, url: str, key: bool) -> RemoteError:
    """The error for an answer whose status is not 200.

    Args:
        status: of HTTP.
        body: its beginning.
        headers: by their names in lower case.
        url: what was asked.
        key: whether a key was shown.
    """
    said = _said(body)
    words = f": {said}" if said else ""
    if status in (401, 403):
        what = "refuses the key" if key else "wants a key: give --api-key-env or --api-key-file"
        return RemoteError(f"the server {what} ({status}){words}")
    if status == 404:
        hint = "" if said else f": there is nothing at {url}; is this the address of an OpenAI API?"
        return RemoteError(f"the server does not know it (404){words}{hint}")
    if status == 429:
        return RemoteError(f"the server is busy (429){_when(headers.get('retry-after'))}{words}")
    if 300 <= status < 400:
        target = headers.get("location", "elsewhere")
        return RemoteError(f"the server sends us to {shortened(target)} ({status}): give that as --url")
    if status >= 500:
        return RemoteError(f"the server failed ({status}){_when(headers.get('retry-after'))}{words}")
    return RemoteError(f"the server refuses the request ({status}){words}")


def _said(body: bytes) -> str | None:
    try:
        return error_message(json.loads(body))
    except (ValueError, RecursionError):
        return None


def _when(retry_after: str | None) -> str:
    if retry_after is None:
        return ""
    seconds = retry_after.strip()
    if seconds.isascii() and seconds.isdigit() and len(seconds) < 8:
        return f"; try again in {int(seconds)} s"
    return f"; try again after {shortened(seconds)}"


def shortened(text: str) -> str:
    """A server's own words as part of a sentence: on one line, and no more than a person reads."""
    text = " ".join(text.split())
    return text if len(text) <= MOST_MESSAGE else text[:MOST_MESSAGE] + " ..."
