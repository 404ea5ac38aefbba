"""Whole conversations with the built-in model over HTTP: memory, thoughts, tools in two steps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.bodies import ask
from tests.server.client import joined_chat
from tests.server.http.serving import Program

CHAT = "/v1/chat/completions"
CALCULATOR = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Compute an arithmetic expression.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string", "description": "such as 2 + 3"}},
            "required": ["expression"],
        },
    },
}


def answer(server: Program, messages: list[dict[str, Any]], *, stream: bool, **fields: Any) -> dict[str, Any]:
    """The message of a reply, as a client would put it into the conversation; greedy, so both ways agree."""
    fields = {"messages": messages, "temperature": 0, "max_tokens": 120, **fields}
    if not stream:
        return dict(server.post(CHAT, **fields)["choices"][0]["message"])
    choice = joined_chat(server.stream(CHAT, **fields))[0]
    calls = [{"type": "function", **call} for call in choice["calls"]]
    return {"role": "assistant", **choice["message"], **({"tool_calls": calls} if calls else {})}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("thinking", [False, True])
def test_a_name_is_remembered_over_turns(server: Program, stream: bool, thinking: bool) -> None:
    switch = {"chat_template_kwargs": {"enable_thinking": thinking}}
    messages: list[dict[str, Any]] = []
    for line in ("My name is Ada.", "What is 2 + 3?", "What is my name?"):
        messages += ask(line)
        messages.append(answer(server, messages, stream=stream, **switch))
    assert "Ada" in messages[-1]["content"]
    assert "5" in messages[3]["content"]
    for message in messages[1::2]:
        assert bool(message.get("reasoning_content")) == thinking
        assert "think>" not in message["content"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("thinking", [False, True])
def test_a_tool_is_called_and_its_result_is_told(server: Program, stream: bool, thinking: bool) -> None:
    fields = {"tools": [CALCULATOR], "chat_template_kwargs": {"enable_thinking": thinking}}
    messages = ask("What is 348 * 27?")
    called = answer(server, messages, stream=stream, **fields)
    [call] = called["tool_calls"]
    assert not called["content"]
    assert json.loads(call["function"]["arguments"])["expression"].replace(" ", "") == "348*27"
    messages += [called, {"role": "tool", "tool_call_id": call["id"], "content": "9396"}]
    told = answer(server, messages, stream=stream, **fields)
    assert "9396" in told["content"]
    assert "tool_calls" not in told
