"""Replies in the making as OpenAI's streaming objects, in the order and form that clients depend on.

One `id` for all. The first object of a chat choice carries the role and no text; after that nothing empty is
sent. `finish_reason` is null until the last object of a choice. With `include_usage` every object has a
`usage`, null but in the very last one, which has no choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qanat.engine.reply import PromptProgress, ReplyChunk, TokenLogprob, Usage
from qanat.server.logprobs import TextLogprobs, chat_logprobs
from qanat.server.responses import EchoedPrompt, Head, usage_object
from qanat.text.dialects import ReplyDelta

__all__ = ["ChatStream", "TextStream"]

Object = dict[str, Any]


class _Frame:
    """What the objects of an answer share: their head, and the usage, gathered as replies end."""

    def __init__(self, head: Head, kind: str, include_usage: bool) -> None:
        self._frame = {**head.object(kind), "choices": []}
        self._include_usage = include_usage
        self._usages: dict[int, list[Usage]] = {}

    def object(self, choice: Object) -> Object:
        return self._with_usage({**self._frame, "choices": [choice]})

    def _with_usage(self, whole: Object) -> Object:
        return {**whole, "usage": None} if self._include_usage else whole

    def progress(self, progress: PromptProgress) -> Object:
        """Without a choice, as the usage has none, so that clients skip what they do not know."""
        told = {"total": progress.total, "cache": progress.cached, "processed": progress.read}
        return self._with_usage({**self._frame, "prompt_progress": told})

    def note(self, chunk: ReplyChunk) -> None:
        if chunk.reply is not None:
            self._usages.setdefault(chunk.prompt_index, []).append(chunk.reply.usage)

    def usage(self) -> Object:
        return usage_object(list(self._usages.values()))

    def last(self) -> list[Object]:
        return [{**self._frame, "usage": self.usage()}] if self._include_usage else []


class ChatStream:
    """`chat.completion.chunk` objects of one answer.

    Args:
        head: what all of them carry.
        include_usage: whether the last one tells the usage.
    """

    def __init__(self, head: Head, *, include_usage: bool) -> None:
        self._frame = _Frame(head, "chat.completion.chunk", include_usage)
        self._waiting: dict[int, list[TokenLogprob]] = {}
        """Of each choice that has begun: log probabilities of tokens whose text has not come yet."""

    def feed(self, chunk: ReplyChunk) -> list[Object]:
        """The objects that a chunk gives, often none."""
        if chunk.progress is not None:
            return [self._frame.progress(chunk.progress)]
        index = chunk.choice_index
        objects = []
        if index not in self._waiting:
            self._waiting[index] = []
            objects.append(self._object(index, {"role": "assistant", "content": ""}))
        self._waiting[index] += chunk.logprobs or ()
        objects += [self._object(index, _delta(delta)) for delta in chunk.deltas]
        if chunk.reply is not None:
            objects.append(self._object(index, {}, chunk.reply.finish_reason))
            self._frame.note(chunk)
        return objects

    def usage(self) -> Object:
        """The usage of all choices that have ended."""
        return self._frame.usage()

    def finish(self) -> list[Object]:
        """The usage, if it is wanted: after the last chunk."""
        return self._frame.last()

    def _object(self, index: int, delta: Object, finish_reason: str | None = None) -> Object:
        tokens, self._waiting[index] = self._waiting[index], []
        logprobs = chat_logprobs(tokens) if tokens else None
        return self._frame.object(
            {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        )


def _delta(delta: ReplyDelta) -> Object:
    """Text under its name; of a call the id and name once, then pieces of its arguments."""
    if delta.kind == "content":
        return {"content": delta.text}
    if delta.kind == "reasoning":
        return {"reasoning_content": delta.text}
    call: Object = {"index": delta.index}
    if delta.kind == "tool_call_start":
        call |= {"id": delta.call_id, "type": "function", "function": {"name": delta.name, "arguments": ""}}
    else:
        call |= {"function": {"arguments": delta.text}}
    return {"tool_calls": [call]}


class TextStream:
    """`text_completion` objects of one answer while it grows.

    Args:
        head: what all of them carry.
        n: replies to each prompt.
        include_usage: whether the last one tells the usage.
        echoed: the prompts, to stand before the replies.
    """

    def __init__(
        self, head: Head, *, n: int, include_usage: bool, echoed: Sequence[EchoedPrompt] | None = None
    ) -> None:
        self._frame = _Frame(head, "text_completion", include_usage)
        self._n = n
        self._echoed = echoed
        self._logprobs: dict[int, TextLogprobs] = {}
        self._waiting: dict[int, list[TokenLogprob]] = {}

    def feed(self, chunk: ReplyChunk) -> list[Object]:
        """The object that a chunk gives; none while its text is held back."""
        index = chunk.prompt_index * self._n + chunk.choice_index
        text = chunk.text
        if index not in self._waiting:
            before = self._echoed[chunk.prompt_index].text if self._echoed is not None else ""
            self._waiting[index], self._logprobs[index] = [], TextLogprobs(len(before))
            text = before + text
        self._waiting[index] += chunk.logprobs or ()
        if not text and chunk.reply is None:
            return []
        tokens, self._waiting[index] = self._waiting[index], []
        self._frame.note(chunk)
        choice = {
            "index": index,
            "text": text,
            "logprobs": self._logprobs[index].add(tokens) if tokens else None,
            "finish_reason": None if chunk.reply is None else chunk.reply.finish_reason,
        }
        return [self._frame.object(choice)]

    def usage(self) -> Object:
        """The usage of all choices that have ended."""
        return self._frame.usage()

    def finish(self) -> list[Object]:
        """The usage, if it is wanted: after the last chunk."""
        return self._frame.last()
