"""Request bodies for the tests, and the JSON values that an attacker would put into their fields."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Look up the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Yazd"}'},
}


def ask(text: str = "hi") -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


CHAT_FIELDS: dict[str, Any] = {
    "model": "pocket",
    "messages": [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}], "name": "Ann"},
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [CALL]},
        {"role": "tool", "content": "sunny", "tool_call_id": "call_1"},
    ],
    "tools": [TOOL],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "chat_template_kwargs": {"enable_thinking": True},
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 20,
    "min_p": 0.01,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "repetition_penalty": 1.1,
    "seed": 7,
    "n": 2,
    "max_tokens": 4,
    "max_completion_tokens": 4,
    "min_tokens": 1,
    "stop": ["END"],
    "stop_token_ids": [3],
    "ignore_eos": False,
    "logit_bias": {"5": -1.5},
    "logprobs": True,
    "top_logprobs": 2,
    "response_format": {"type": "text"},
    "thinking_budget": 9,
    "stream": True,
    "stream_options": {"include_usage": True},
    "return_progress": True,
    "user": "ann",
    "safety_identifier": "x",
    "prompt_cache_key": "x",
    "metadata": {"job": "1"},
    "service_tier": "auto",
    "store": False,
}
"""Every field of a chat request, all at once."""

_CHAT_ONLY = (
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "chat_template_kwargs",
    "max_completion_tokens",
    "return_progress",
)
COMPLETION_FIELDS: dict[str, Any] = {
    "prompt": ["one", "two"],
    "echo": False,
    "best_of": 2,
    "suffix": "",
    **{k: v for k, v in CHAT_FIELDS.items() if k not in (*_CHAT_ONLY, "logprobs", "top_logprobs")},
    "logprobs": 2,
}
"""Every field of a completion request."""

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-3, 30)
    | st.sampled_from([2**31, 2**63, 2**64, -(2**63), 10**400, -1.5, 0.5, 1e308, float("inf"), float("nan")])
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(
        [
            "",
            "user",
            "tool",
            "auto",
            "required",
            "\ud800",
            "text",
            "function",
            '{"a": 1}',
            "[",
            "call_1",
            "regex",
            "json_object",
        ]
    )
)
NAMES = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "function",
        "name",
        "arguments",
        "id",
        "tool_calls",
        "enable_thinking",
        "5",
        "\ud800",
    ]
) | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
"""Any JSON value, and more than JSON: NaN, infinities, half characters."""


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in places(inner, (*path, key)))]


def with_value(body: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    body = copy.deepcopy(body)
    at = body
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    return body
