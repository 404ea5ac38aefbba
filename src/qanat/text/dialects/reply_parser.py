"""A reply's text, as the model writes it, in three parts: reasoning, content, tool calls."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from qanat.text.dialects.deltas import ReplyDelta, ToolCall, merged
from qanat.text.dialects.qwen_xml import QwenXmlParser
from qanat.text.dialects.thoughts import ThoughtSplitter

__all__ = ["ReplyParser", "new_call_id"]


def new_call_id() -> str:
    """An id that no other call has: `call_` and 24 random hexadecimal digits."""
    return "call_" + secrets.token_hex(12)


class ReplyParser:
    """Parses one reply. How its text is cut into deltas changes nothing in the result.

    Args:
        in_thought: whether the reply begins inside a thought; ask `starts_in_thought(prompt)`.
        tools: the request's tools as JSON schemas. Without any, calls are not looked for.
        live_arguments: send a call's deltas while it is written instead of when it is complete
            (see `QwenXmlParser`).
        new_call_id: makes the ids of calls.

    Attributes:
        reasoning: the thought, without white space around it; None if there is none.
        content: the answer; None if there is none.
        tool_calls: the complete calls, in order.
        finish_reason: as given to `finish`, but `tool_calls` instead of `stop` when there are calls.
    All four are complete after `finish`.
    """

    def __init__(
        self,
        *,
        in_thought: bool,
        tools: Sequence[dict[str, Any]] | None = None,
        live_arguments: bool = False,
        new_call_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._thoughts = ThoughtSplitter(in_thought=in_thought)
        self._calls = (
            QwenXmlParser(tools, new_call_id=new_call_id, live_arguments=live_arguments) if tools else None
        )
        self._reasoning: list[str] = []
        self._content: list[str] = []
        self.finish_reason: str | None = None

    def feed(self, delta: str) -> list[ReplyDelta]:
        """What the next piece of text adds to the reply; may be nothing yet."""
        if self.finish_reason is not None:
            raise RuntimeError("this reply is finished; parse the next one with a new ReplyParser")
        reasoning, rest = self._thoughts.feed(delta)
        deltas = [ReplyDelta("reasoning", reasoning)] if reasoning else []
        if rest:
            deltas += [ReplyDelta("content", rest)] if self._calls is None else self._calls.feed(rest)
        return self._kept(deltas)

    def finish(self, finish_reason: str) -> list[ReplyDelta]:
        """End the reply (`stop`, `length`, ...) and return what was held back."""
        if self.finish_reason is not None:
            raise RuntimeError("this reply is already finished")
        held = [ReplyDelta("reasoning", self._thoughts.finish())]
        if self._calls is not None:
            held += self._calls.finish()
        self.finish_reason = "tool_calls" if finish_reason == "stop" and self.tool_calls else finish_reason
        return self._kept(held)

    @property
    def reasoning(self) -> str | None:
        """The thought so far."""
        return "".join(self._reasoning) or None

    @property
    def content(self) -> str | None:
        """The answer so far."""
        return "".join(self._content) or None

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The complete calls so far."""
        return list(self._calls.calls) if self._calls is not None else []

    def _kept(self, deltas: Iterable[ReplyDelta]) -> list[ReplyDelta]:
        result = merged(deltas)
        for delta in result:
            if delta.kind == "reasoning":
                self._reasoning.append(delta.text)
            elif delta.kind == "content":
                self._content.append(delta.text)
        return result
