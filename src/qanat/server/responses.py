"""Whole replies as OpenAI's `chat.completion` and `text_completion` objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qanat.engine.reply import Reply, TokenLogprob, Usage
from qanat.server.logprobs import TextLogprobs, chat_logprobs

__all__ = ["EchoedPrompt", "Head", "chat_completion", "text_completion", "usage_object"]


@dataclass(frozen=True)
class Head:
    """What all objects of one answer carry."""

    id: str
    created: int
    """Seconds since 1970."""
    model: str

    def object(self, kind: str) -> dict[str, Any]:
        """The beginning of an object of this kind."""
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


@dataclass(frozen=True)
class EchoedPrompt:
    """A prompt that stands before its replies."""

    text: str
    first_token: bytes
    """The one that has no log probability."""


def chat_completion(head: Head, replies: Sequence[Reply]) -> dict[str, Any]:
    """The answer to a chat request: its n replies, in order."""
    return {
        **head.object("chat.completion"),
        "choices": [
            {
                "index": index,
                "message": _message(reply),
                "logprobs": None if reply.logprobs is None else chat_logprobs(reply.logprobs),
                "finish_reason": reply.finish_reason,
            }
            for index, reply in enumerate(replies)
        ],
        "usage": usage_object([[reply.usage for reply in replies]]),
    }


def _message(reply: Reply) -> dict[str, Any]:
    """Content is null where the model only thought or called tools."""
    silent = not reply.text and (reply.reasoning is not None or reply.tool_calls)
    message: dict[str, Any] = {"role": "assistant", "content": None if silent else reply.text}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.tool_calls
        ]
    return message


def text_completion(
    head: Head, replies: Sequence[Sequence[Reply]], echoed: Sequence[EchoedPrompt] | None = None
) -> dict[str, Any]:
    """The answer to a completion request.

    Args:
        head: what all its objects carry.
        replies: for each prompt its n replies.
        echoed: the prompts, to stand before the replies.
    """
    choices: list[dict[str, Any]] = []
    for place, choices_of_prompt in enumerate(replies):
        echo = echoed[place] if echoed is not None else None
        for reply in choices_of_prompt:
            choices.append(
                {
                    "index": len(choices),
                    "text": reply.text if echo is None else echo.text + reply.text,
                    "logprobs": None if reply.logprobs is None else _text_logprobs(reply, echo),
                    "finish_reason": reply.finish_reason,
                }
            )
    return {
        **head.object("text_completion"),
        "choices": choices,
        "usage": usage_object([[reply.usage for reply in of_prompt] for of_prompt in replies]),
    }


def _text_logprobs(reply: Reply, echo: EchoedPrompt | None) -> dict[str, Any]:
    tokens: list[TokenLogprob | bytes] = list(reply.logprobs or ())
    if echo is not None and reply.prompt_logprobs is not None:
        tokens[:0] = [echo.first_token, *(token for token in reply.prompt_logprobs if token is not None)]
    return TextLogprobs().add(tokens)


def usage_object(usages: Sequence[Sequence[Usage]]) -> dict[str, Any]:
    """Token counts of a whole answer; a prompt counts once, however many replies it has.

    Args:
        usages: for each prompt those of its replies.
    """
    prompt = sum(of_prompt[0].prompt_tokens for of_prompt in usages)
    completion = sum(usage.completion_tokens for of_prompt in usages for usage in of_prompt)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        # The first reply to a prompt reads it for all: what the others found is no earlier request's.
        "prompt_tokens_details": {
            "cached_tokens": sum(min(u.cached_tokens for u in of_prompt) for of_prompt in usages)
        },
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.reasoning_tokens for of_prompt in usages for usage in of_prompt)
        },
    }
