"""OpenAI's batch files, line by line: requests in, results out.

A request is `{"custom_id", "method": "POST", "url", "body"}`, a result `{"id", "custom_id", "response",
"error"}`. A body that cannot be used gets a response with its status, as a server would have answered; a line
that is no request gets an `error` instead.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qanat.checkpoint.strict_json import parse_json
from qanat.engine.sampling_params import shown
from qanat.errors import RequestError
from qanat.server.chat_request import ChatRequest, read_chat_request
from qanat.server.completion_request import CompletionRequest, read_completion_request
from qanat.server.errors import error_response
from qanat.server.fields import FieldError, Fields, any_value, text

__all__ = ["RESULT_ID", "BatchLine", "failure", "read_lines", "read_request", "success"]

RESULT_ID = "batch_req_"
"""How every result's id begins."""
MAX_CUSTOM_ID = 512

_URLS: dict[str, Callable[[Any], ChatRequest | CompletionRequest]] = {
    "/v1/chat/completions": read_chat_request,
    "/v1/completions": read_completion_request,
}


class LineError(RequestError):
    """A line is no request; `code` is OpenAI's word for it."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class BatchLine:
    """A line of the input."""

    number: int
    """From 1."""
    data: bytes
    custom_id: str | None
    """None if it has none, or is no JSON object."""
    digest: str
    """Of the line and of what else decides its result: a result knows by it whose it is."""
    seed: int
    """For a request that names none."""

    @property
    def result_id(self) -> str:
        """The id of its result."""
        return RESULT_ID + self.digest


def read_lines(data: bytes, *, where: str, options: Callable[[], str], seed: int) -> list[BatchLine]:
    """The lines of a batch file, blank ones left out.

    Args:
        data: the file.
        where: how messages call it.
        options: tells what decides the results besides the lines: the model, how it is computed. Asked once
            the lines are known to be in order, for it may have to fetch a model.
        seed: mixed with each custom_id.

    Raises:
        RequestError: two lines have the same custom_id.
    """
    found: list[tuple[int, bytes, str | None]] = []
    numbers: dict[str, int] = {}
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        line = raw.strip()
        if not line:
            continue
        custom_id = _custom_id(line)
        first = numbers.setdefault(custom_id, number) if custom_id is not None else number
        if first != number:
            raise RequestError(
                f"{where}: lines {first} and {number} have the same custom_id {shown(custom_id)}: nothing "
                "would tell their results apart: give each line its own"
            )
        found.append((number, line, custom_id))
    decides = options() if found else ""
    return [_line(number, line, custom_id, decides, seed) for number, line, custom_id in found]


def _line(number: int, line: bytes, custom_id: str | None, options: str, seed: int) -> BatchLine:
    place = str(number) if custom_id is None else ""  # a line without a custom_id is known by its place
    digest = hashlib.sha256(f"{options}\0{seed}\0{place}\0".encode() + line).hexdigest()[:24]
    drawn = hashlib.sha256(f"{seed}\0{custom_id}".encode()).digest()
    return BatchLine(number, line, custom_id, digest, int.from_bytes(drawn[:8], "big") >> 1)


def _custom_id(line: bytes) -> str | None:
    try:
        return _read_custom_id(Fields(parse_json(line, "", RequestError)))
    except RequestError:
        return None


def _read_custom_id(fields: Fields) -> str:
    custom_id = fields.require("custom_id", text)
    if not 1 <= len(custom_id) <= MAX_CUSTOM_ID:
        raise FieldError(f"`custom_id` must have 1 to {MAX_CUSTOM_ID} characters", "custom_id")
    return custom_id


def read_request(line: BatchLine) -> ChatRequest | CompletionRequest:
    """What a line asks for; with the line's seed where it names none.

    Raises:
        LineError: it is no request.
        RequestError: its body cannot be used.
    """
    where = f"line {line.number}"
    try:
        value = parse_json(line.data, where, RequestError, "a line is one JSON object")
    except RequestError as error:
        raise LineError(str(error), "invalid_json_line") from None
    try:
        fields = Fields(value)
        _read_custom_id(fields)
        method = fields.require("method", text)
        url = fields.require("url", text)
        body = fields.require("body", any_value)
        fields.close()
    except FieldError as error:
        raise LineError(f"{where}: {error}", error.code or "invalid_request") from None
    if method != "POST":
        raise LineError(f"{where}: the method must be POST, not {shown(method)}", "invalid_method")
    if url not in _URLS:
        raise LineError(f"{where}: the url must be {' or '.join(_URLS)}, not {shown(url)}", "invalid_url")
    request = _URLS[url](body)
    if request.stream:
        raise FieldError("`stream` cannot be true in a batch: a line has one result", "stream")
    if request.params.seed is None:
        request = dataclasses.replace(request, params=dataclasses.replace(request.params, seed=line.seed))
    return request


def success(line: BatchLine, body: dict[str, Any]) -> dict[str, Any]:
    """The result of a request that was answered."""
    return _result(line, {"status_code": 200, "request_id": f"req_{line.digest}", "body": body}, None)


def failure(line: BatchLine, problem: Exception) -> dict[str, Any]:
    """The result of a line that was not."""
    if isinstance(problem, LineError):
        return _result(line, None, {"code": problem.code, "message": str(problem)})
    status, body = error_response(problem)
    return _result(line, {"status_code": status, "request_id": f"req_{line.digest}", "body": body}, None)


def _result(line: BatchLine, response: Any, error: Any) -> dict[str, Any]:
    return {"id": line.result_id, "custom_id": line.custom_id, "response": response, "error": error}
