"""Small answers: JSON objects and OpenAI's errors, with the headers that all of them have."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from qanat.server.errors import error_object, error_response

__all__ = ["RETRY", "error_reply", "json_reply", "refusal", "response_headers"]

RETRY = "1"
"""Seconds after which a client that was sent away may ask again."""


def response_headers(content_type: str) -> dict[str, str]:
    """Answers belong to who asked, and are nothing but what they say they are."""
    return {"content-type": content_type, "cache-control": "no-store", "x-content-type-options": "nosniff"}


def json_reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON value. Half a character, which a refused request may hold, is written as an escape."""
    data = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    return Response(data, status, {**response_headers("application/json"), **(headers or {})})


def error_reply(error: Exception) -> Response:
    """What a request gets that ended with this error before anything was sent."""
    status, body = error_response(error)
    return json_reply(body, status, {"retry-after": RETRY} if status in (429, 503) else None)


def refusal(
    status: int, message: str, code: str | None = None, headers: dict[str, str] | None = None
) -> Response:
    """An error that HTTP itself has a status for."""
    return json_reply(error_object(status, message, code=code), status, headers)
