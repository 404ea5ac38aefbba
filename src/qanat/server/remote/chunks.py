"""The objects of a chat stream, read as a client does that trusts none of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from qanat.server.remote.errors import RemoteError, error_message, shortened

__all__ = ["RemoteCall", "RemoteChunk", "RemoteReply", "RemoteUsage", "ReplyReader"]

MOST_CALLS = 128
MOST_COUNT = 2**53
"""Tokens that can be meant: as far as every reader of JSON counts whole numbers."""


@dataclass(frozen=True)
class RemoteUsage:
    """Token counts, as the server tells them."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


@dataclass
class RemoteCall:
    """A tool call; its arguments are text that may or may not be JSON."""

    name: str = ""
    arguments: str = ""


@dataclass(frozen=True)
class RemoteReply:
    """What is known at the end of an answer."""

    finish_reason: str
    usage: RemoteUsage | None
    """None: the server did not count."""
    tool_calls: tuple[RemoteCall, ...] = ()


@dataclass(frozen=True)
class RemoteChunk:
    """New text of answer and thought; with the last one the reply."""

    text: str = ""
    reasoning: str = ""
    reply: RemoteReply | None = None


@dataclass
class ReplyReader:
    """Puts the first choice of a stream together."""

    finish_reason: str | None = None
    usage: RemoteUsage | None = None
    calls: dict[int, RemoteCall] = field(default_factory=dict)

    def feed(self, data: bytes) -> RemoteChunk:
        """The text in one event.

        Raises:
            RemoteError: it is no chunk of an answer, or an error of the server's.
        """
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise RemoteError(f"the server sent an event that is no JSON: {_start(data)}") from None
        if not isinstance(value, dict) or value.get("error"):
            said = error_message(value)
            raise RemoteError(
                f"the server broke the answer off: {said}"
                if said
                else f"the server sent what is no part of an answer: {_start(data)}"
            )
        try:
            return self._read(value)
        except _FormError as error:
            raise RemoteError(f"the server sent what is no part of an answer ({error})") from None

    def end(self) -> RemoteReply:
        """The reply, after the last event."""
        calls = tuple(call for _, call in sorted(self.calls.items()))
        return RemoteReply(self.finish_reason or "stop", self.usage, calls)

    def _read(self, value: dict[str, Any]) -> RemoteChunk:
        usage = value.get("usage")
        if isinstance(usage, dict):
            details = usage.get("prompt_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else 0
            self.usage = RemoteUsage(
                _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(cached)
            )
        text = reasoning = ""
        for choice in _list(value.get("choices"), "choices"):
            if not isinstance(choice, dict):
                raise _FormError("choices")
            if choice.get("index") not in (0, None):
                continue  # we asked for one
            delta = choice.get("delta")
            if delta is not None and not isinstance(delta, dict):
                raise _FormError("delta")
            delta = delta or {}
            text += _text(delta, "content") or _text(delta, "refusal")
            # Two names of one thing; a server that sends both sends the same.
            reasoning += _text(delta, "reasoning_content") or _text(delta, "reasoning")
            self._calls(_list(delta.get("tool_calls"), "tool_calls"))
            self.finish_reason = shortened(_text(choice, "finish_reason")) or self.finish_reason
        return RemoteChunk(text, reasoning)

    def _calls(self, pieces: list[Any]) -> None:
        for piece in pieces:
            function = piece.get("function") if isinstance(piece, dict) else None
            index = piece.get("index", 0) if isinstance(piece, dict) else None
            if not isinstance(function, dict) or not isinstance(index, int) or not 0 <= index < MOST_CALLS:
                raise _FormError("tool_calls")
            call = self.calls.setdefault(index, RemoteCall())
            call.name += _text(function, "name")
            call.arguments += _text(function, "arguments")


class _FormError(Exception):
    """A field is not what OpenAI's dialect says; its name."""


def _list(value: Any, name: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _FormError(name)
    return value


def _text(fields: dict[str, Any], name: str) -> str:
    """A text that may be missing; halves of UTF-16 pairs, which nothing can print, become U+FFFD."""
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _FormError(name)
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _count(value: Any) -> int:
    counts = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_COUNT
    return int(value) if counts else 0


def _start(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return text if len(text) <= 80 else text[:80] + " ..."
