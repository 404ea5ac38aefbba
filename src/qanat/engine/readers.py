"""Two ways to read what the model writes: as plain text, or as a chat reply with thoughts and tool calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from qanat.engine.sequence import FinishReason
from qanat.text.dialects import ReplyDelta, ReplyParser, ToolCall

__all__ = ["ChatReader", "PlainReader", "Reader", "Reading"]


@dataclass(frozen=True)
class Reading:
    """A whole reply as its reader understood it."""

    text: str
    reasoning: str | None
    tool_calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    reasoning_tokens: int = 0


class Reader(Protocol):
    """Takes the text of one reply in pieces."""

    def feed(self, text: str) -> list[ReplyDelta]:
        """Take the next piece; returns what it made certain."""

    def finish(self, reason: FinishReason, token_ids: Sequence[int]) -> tuple[list[ReplyDelta], Reading]:
        """The reply has ended: the last deltas, and the whole."""


class PlainReader:
    """All text is the answer."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def feed(self, text: str) -> list[ReplyDelta]:
        """One content delta."""
        self._pieces.append(text)
        return [ReplyDelta("content", text)] if text else []

    def finish(self, reason: FinishReason, token_ids: Sequence[int]) -> tuple[list[ReplyDelta], Reading]:
        """Nothing was held back."""
        return [], Reading("".join(self._pieces), None, (), reason)


class ChatReader:
    """Thought, answer and tool calls, told apart by `qanat.text.dialects.ReplyParser`.

    Args:
        in_thought: whether the rendered prompt ends in an open thought.
        tools: JSON schemas of the tools on offer, or None.
        think_end: id of `</think>`, to count the thought's tokens.
    """

    def __init__(
        self, *, in_thought: bool, tools: list[dict[str, Any]] | None, think_end: int | None
    ) -> None:
        self._parser = ReplyParser(in_thought=in_thought, tools=tools)
        self._in_thought = in_thought
        self._think_end = think_end

    def feed(self, text: str) -> list[ReplyDelta]:
        """Typed deltas."""
        return self._parser.feed(text) if text else []

    def finish(self, reason: FinishReason, token_ids: Sequence[int]) -> tuple[list[ReplyDelta], Reading]:
        """Whatever was held back; a reply that ended by itself in tool calls finishes as "tool_calls"."""
        deltas = self._parser.finish(reason)
        calls = tuple(self._parser.tool_calls)
        return deltas, Reading(
            text=self._parser.content or "",
            reasoning=self._parser.reasoning,
            tool_calls=calls,
            finish_reason="tool_calls" if calls and reason == "stop" else reason,
            reasoning_tokens=self._count_thought(token_ids),
        )

    def _count_thought(self, token_ids: Sequence[int]) -> int:
        if not self._in_thought:
            return 0
        return next((i for i, t in enumerate(token_ids, 1) if t == self._think_end), len(token_ids))
