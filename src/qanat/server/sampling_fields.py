"""The fields that chat and text completions share: how tokens are chosen, and what changes nothing."""

from __future__ import annotations

from typing import Any

from qanat.engine.sampling_params import MAX_STOPS
from qanat.server.fields import FieldError, Fields, any_value, boolean, integer, listed, number, one_of, text

__all__ = ["MAX_CHOICES", "MAX_TOKENS", "read_harmless", "read_sampling", "read_streaming"]

MAX_TOKENS = 2**31 - 1
MAX_CHOICES = 128
MAX_BIASES = 1024
_MAX_ID = 2**31 - 1


def read_sampling(body: Fields) -> dict[str, Any]:
    """The fields that were given, as arguments of `SamplingParams`; ranges are OpenAI's where it has one."""
    given = {
        "temperature": body.take("temperature", number(0, 2)),
        "top_p": body.take("top_p", number(0, 1)),
        "min_p": body.take("min_p", number(0, 1)),
        "top_k": body.take("top_k", integer(-1, _MAX_ID)),
        "presence_penalty": body.take("presence_penalty", number(-2, 2)),
        "frequency_penalty": body.take("frequency_penalty", number(-2, 2)),
        "repetition_penalty": body.take("repetition_penalty", number(0.01, 100)),
        "seed": body.take("seed", integer(-(2**63), 2**63 - 1)),
        "n": body.take("n", integer(1, MAX_CHOICES)),
        "max_tokens": body.take("max_tokens", integer(1, MAX_TOKENS)),
        "min_tokens": body.take("min_tokens", integer(0, MAX_TOKENS)),
        "stop": body.take("stop", _stop),
        "stop_token_ids": body.take("stop_token_ids", listed(integer(0, _MAX_ID), most=MAX_BIASES)),
        "ignore_eos": body.take("ignore_eos", boolean),
        "logit_bias": body.take("logit_bias", _logit_bias),
    }
    if given["top_k"] == -1:  # another way to say "off"
        given["top_k"] = 0
    return {name: value for name, value in given.items() if value is not None}


def read_streaming(body: Fields) -> tuple[bool, bool]:
    """Whether to stream, and whether the stream ends with the usage."""
    stream = body.take("stream", boolean) or False
    options = body.take("stream_options", Fields)
    if options is None:
        return stream, False
    if not stream:
        raise FieldError("`stream_options` is set, but `stream` is not", "stream_options")
    include_usage = options.take("include_usage", boolean) or False
    options.close()
    return stream, include_usage


def read_harmless(body: Fields) -> None:
    """Fields for the operator of a service, without effect on the answer by their nature: only checked."""
    for name in ("user", "safety_identifier", "prompt_cache_key"):
        body.take(name, text)
    body.take("metadata", any_value)
    body.take("service_tier", one_of("auto", "default"))
    if body.take("store", boolean):
        raise FieldError(
            "`store` is not supported: no answer is kept; leave it out", "store", "unsupported_parameter"
        )


def _stop(value: Any, path: str) -> list[str]:
    if isinstance(value, str):
        value = [value]
    stops = listed(text, most=MAX_STOPS)(value, path)
    if "" in stops:
        raise FieldError(f"`{path}` holds an empty string, which is found everywhere", path)
    return stops


def _logit_bias(value: Any, path: str) -> dict[int, float]:
    if not isinstance(value, dict):
        raise FieldError(f"`{path}` must be an object of token ids and numbers", path)
    if len(value) > MAX_BIASES:
        raise FieldError(f"`{path}` has {len(value)} entries; at most {MAX_BIASES} are allowed", path)
    bias = {}
    for key, amount in value.items():
        if not (key.isascii() and key.isdigit() and len(key) <= 10):
            raise FieldError(f"`{path}` has a key that is no token id", path)
        if int(key) in bias:
            raise FieldError(f"`{path}` names the token {int(key)} twice", path)
        bias[int(key)] = number(-100, 100)(amount, f"{path}.{key}")
    return bias
