"""What a parsed reply is made of: pieces while it is written, and whole calls at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["ReplyDelta", "ToolCall", "merged"]


@dataclass(frozen=True)
class ReplyDelta:
    """A piece of a reply as it grows.

    Attributes:
        kind: `tool_call_start` carries `name` and `call_id`; `tool_call_arguments` carries JSON
            text, whose pieces of the same `index` join to one object.
        text: what is added; empty for `tool_call_start`.
        index: the number of the call, from 0; None for reasoning and content.
    """

    kind: Literal["reasoning", "content", "tool_call_start", "tool_call_arguments"]
    text: str
    index: int | None = None
    name: str | None = None
    call_id: str | None = None


@dataclass(frozen=True)
class ToolCall:
    """A complete call; `arguments` is the text of a JSON object."""

    id: str
    name: str
    arguments: str


def merged(deltas: Iterable[ReplyDelta]) -> list[ReplyDelta]:
    """Neighbouring reasoning or content deltas joined; empty ones left out."""
    result: list[ReplyDelta] = []
    for delta in deltas:
        if not delta.text and delta.kind != "tool_call_start":
            continue
        if result and delta.kind == result[-1].kind and delta.kind in ("reasoning", "content"):
            result[-1] = replace(delta, text=result[-1].text + delta.text)
        else:
            result.append(delta)
    return result
