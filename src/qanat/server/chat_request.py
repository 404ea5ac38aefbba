"""The body of `/v1/chat/completions`, read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qanat.engine.sampling_params import MAX_LOGPROBS, SamplingParams
from qanat.server.fields import FieldError, Fields, boolean, integer, text
from qanat.server.messages import read_messages
from qanat.server.sampling_fields import MAX_TOKENS, read_harmless, read_sampling, read_streaming
from qanat.server.structure_fields import read_structure
from qanat.server.tools import AUTO, read_tools

__all__ = ["ChatDefaults", "ChatRequest", "read_chat_request"]


@dataclass(frozen=True)
class ChatRequest:
    """What a client asks of a conversation."""

    model: str | None
    messages: list[dict[str, Any]]
    """As chat templates read them."""
    tools: list[dict[str, Any]] | None
    tool_choice: str | dict[str, Any]
    """"auto", "required", or the function to call."""
    parallel_tool_calls: bool
    enable_thinking: bool | None
    """None: as the template does by default."""
    params: SamplingParams
    stream: bool
    include_usage: bool
    """Whether the stream ends with the usage."""
    return_progress: bool
    """Whether the stream tells how far the prompt has been read."""

    @property
    def has_form(self) -> bool:
        """Whether a grammar has to be made for the reply."""
        strict = any(tool["function"].get("strict") for tool in self.tools or ())
        free = self.tool_choice == AUTO and self.parallel_tool_calls and not strict
        return self.params.structure is not None or not free


@dataclass(frozen=True)
class ChatDefaults:
    """What a chat request inherits where it says nothing."""

    thinks: bool
    """Whether the model thinks first."""
    can_switch: bool
    """Whether a request can have it otherwise."""
    sampling: dict[str, float | None]
    """Without thinking; if the model always thinks, with it."""
    thinking_sampling: dict[str, float | None]
    """With thinking; if the model never thinks, without it."""


def read_chat_request(value: Any) -> ChatRequest:
    """Read a parsed JSON body.

    Raises:
        FieldError: a field is unknown, not supported, of the wrong type or out of range.
        RequestError: fields that contradict each other.
    """
    body = Fields(value)
    model = body.take("model", text)
    messages = body.require("messages", read_messages)
    tools = read_tools(body)
    thinking = body.take("chat_template_kwargs", _thinking)
    sampling = read_sampling(body)
    _add_max_completion_tokens(body, sampling)
    _add_logprobs(body, sampling)
    sampling |= read_structure(body)
    stream, include_usage = read_streaming(body)
    progress = body.take("return_progress", boolean) or False
    if progress and not stream:
        raise FieldError("`return_progress` is true, but `stream` is not", "return_progress")
    read_harmless(body)
    body.close()
    return ChatRequest(
        model,
        messages,
        tools.tools,
        tools.tool_choice,
        tools.parallel_tool_calls,
        thinking,
        SamplingParams(**sampling),
        stream,
        include_usage,
        progress,
    )


def _thinking(value: Any, path: str) -> bool | None:
    fields = Fields(value, path)
    thinking = fields.take("enable_thinking", boolean)
    fields.close()
    return thinking


def _add_max_completion_tokens(body: Fields, sampling: dict[str, Any]) -> None:
    """OpenAI's newer name of `max_tokens`."""
    most = body.take("max_completion_tokens", integer(1, MAX_TOKENS))
    if most is None:
        return
    if sampling.setdefault("max_tokens", most) != most:
        raise FieldError(
            "`max_completion_tokens` differs from `max_tokens`: give one of them", "max_completion_tokens"
        )


def _add_logprobs(body: Fields, sampling: dict[str, Any]) -> None:
    wanted = body.take("logprobs", boolean)
    top = body.take("top_logprobs", integer(0, MAX_LOGPROBS))
    if wanted:
        sampling["logprobs"] = top or 0
    elif top:
        raise FieldError("`top_logprobs` is set, but `logprobs` is not true", "top_logprobs")
