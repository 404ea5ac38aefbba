"""Errors of qanat's as HTTP status and OpenAI's error object."""

from __future__ import annotations

import traceback
from typing import Any

from qanat.errors import (
    ContextLengthError,
    DeadlineError,
    GrammarError,
    QanatError,
    QueueFullError,
    RequestError,
    TemplateError,
    TokenizerError,
    UnsupportedError,
)
from qanat.server.fields import FieldError

__all__ = [
    "MODEL_NOT_FOUND",
    "RelayedError",
    "UnavailableError",
    "error_object",
    "error_response",
    "log_bug",
]

MODEL_NOT_FOUND = "model_not_found"


class UnavailableError(QanatError):
    """Nobody can answer now: the model loads, its process has died, or the server is being stopped.

    Attributes:
        code: which of them, in a word.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class RelayedError(QanatError):
    """An error of another process, as status and body."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(body["error"]["message"])
        self.status = status
        self.body = body


def error_response(error: Exception) -> tuple[int, dict[str, Any]]:
    """The status and the body with which a request is refused.

    What a client sent is its to mend (400, or 404 for an unknown model); anything else is the server's (500).
    What is no QanatError is a bug, and its words may hold what is nobody's business.
    """
    if isinstance(error, RelayedError):
        return error.status, error.body
    if isinstance(error, UnavailableError):
        return 503, error_object(503, str(error), code=error.code)
    if isinstance(error, FieldError):
        status = 404 if error.code == MODEL_NOT_FOUND else 400
        return status, error_object(status, str(error), error.param, error.code)
    if isinstance(error, ContextLengthError):
        return 400, error_object(400, str(error), code="context_length_exceeded")
    if isinstance(error, GrammarError):
        return 400, error_object(400, str(error), code="invalid_grammar")
    if isinstance(error, QueueFullError):
        return 429, error_object(429, str(error), code="queue_full")
    if isinstance(error, DeadlineError):
        return 408, error_object(408, str(error), code="timeout")
    if isinstance(error, RequestError | TemplateError | TokenizerError | UnsupportedError):
        return 400, error_object(400, str(error))
    if isinstance(error, QanatError):
        return 500, error_object(500, str(error))
    return 500, error_object(500, f"qanat has a bug: {type(error).__name__}")


def error_object(
    status: int, message: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """OpenAI's error object; `type` follows the status."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def log_bug(error: Exception) -> None:
    """Where whoever runs the server sees it, on stderr: the traceback of what is no QanatError."""
    if not isinstance(error, QanatError):
        traceback.print_exception(error)
