"""The body of `/v1/completions`, read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qanat.engine.sampling_params import MAX_LOGPROBS, SamplingParams
from qanat.server.fields import FieldError, Fields, boolean, integer, listed, text
from qanat.server.sampling_fields import MAX_CHOICES, read_harmless, read_sampling, read_streaming
from qanat.server.structure_fields import read_structure

__all__ = ["CompletionRequest", "read_completion_request"]

DEFAULT_MAX_TOKENS = 16
"""OpenAI's: a text that nobody asked a question has no natural end."""
MAX_PROMPTS = 1024
MAX_REPLIES = 4096
"""To all prompts of one request."""
MAX_IDS = 1 << 20
_MAX_ID = 2**31 - 1

Prompt = str | list[int]


@dataclass(frozen=True)
class CompletionRequest:
    """What a client asks to be continued."""

    model: str | None
    prompts: list[Prompt]
    """Texts, or token ids."""
    echo: bool
    """Whether the text begins with the prompt."""
    params: SamplingParams
    stream: bool
    include_usage: bool
    """Whether the stream ends with the usage."""

    @property
    def has_form(self) -> bool:
        """Whether a grammar has to be made for the replies."""
        return self.params.structure is not None


def read_completion_request(value: Any) -> CompletionRequest:
    """Read a parsed JSON body.

    Raises:
        FieldError: a field is unknown, not supported, of the wrong type or out of range.
        RequestError: fields that contradict each other.
    """
    body = Fields(value)
    model = body.take("model", text)
    prompts = body.require("prompt", _prompts)
    echo = body.take("echo", boolean) or False
    sampling = {"max_tokens": DEFAULT_MAX_TOKENS, **read_sampling(body)}
    sampling |= read_structure(body)
    logprobs = body.take("logprobs", integer(0, MAX_LOGPROBS))
    if logprobs is not None:
        sampling["logprobs"] = logprobs
        if echo:
            sampling["prompt_logprobs"] = logprobs
    best_of = body.take("best_of", integer(1, MAX_CHOICES))
    if best_of not in (None, sampling.get("n", 1)):
        raise FieldError("`best_of` is not supported: leave it out, or make it equal to `n`", "best_of")
    replies = len(prompts) * sampling.get("n", 1)
    if replies > MAX_REPLIES:
        raise FieldError(
            f"{len(prompts)} prompts times `n` are {replies} replies; at most {MAX_REPLIES}", "n"
        )
    body.refuse("suffix", "a text is continued, not filled in")
    stream, include_usage = read_streaming(body)
    if stream and echo and logprobs is not None:
        raise FieldError(
            "`logprobs` with `echo` cannot be streamed: the prompt's come last; leave out one of the three",
            "logprobs",
            "unsupported_value",
        )
    read_harmless(body)
    body.close()
    return CompletionRequest(model, prompts, echo, SamplingParams(**sampling), stream, include_usage)


def _prompts(value: Any, path: str) -> list[Prompt]:
    """A text, a list of token ids, or a list of these."""
    if isinstance(value, str):
        return [text(value, path)]
    if isinstance(value, list) and value and not isinstance(value[0], str | list):
        return [_ids(value, path)]
    return listed(_prompt, least=1, most=MAX_PROMPTS)(value, path)


def _prompt(value: Any, path: str) -> Prompt:
    return _ids(value, path) if isinstance(value, list) else text(value, path)


_ids = listed(integer(0, _MAX_ID), least=1, most=MAX_IDS)
