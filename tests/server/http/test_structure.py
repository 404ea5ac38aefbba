"""Forms and calls over HTTP, with the built-in model."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import pytest

from tests.json_schemas import random_schema, violation
from tests.server.bodies import TOOL, ask
from tests.server.client import joined_chat
from tests.server.http.serving import Program

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def schema_of(value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": value, "strict": True}}


def test_two_hundred_random_schemas_are_kept(server: Program) -> None:
    """Thinking or not, at a temperature where the model would say anything."""

    def answer(seed: int) -> tuple[str, str | None]:
        schema = random_schema(1000 + seed)
        answered = server.post(
            CHAT,
            messages=ask("Tell me about Bob as JSON."),
            response_format=schema_of(schema),
            max_tokens=200,
            temperature=1.0,
            seed=seed,
            chat_template_kwargs={"enable_thinking": seed % 4 == 0},
            thinking_budget=40,
        )
        [choice] = answered["choices"]
        return choice["finish_reason"], violation(choice["message"]["content"] or "", schema)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(answer, range(200)))
    whole = [why for reason, why in answers if reason == "stop"]
    print(len(whole), "whole")
    assert {reason for reason, _ in answers} <= {"stop", "length"}
    assert len(whole) > 150, f"{200 - len(whole)} replies were cut"
    assert [why for why in whole if why is not None] == []


@pytest.mark.parametrize("thinking", [False, True])
def test_a_streamed_form_is_the_whole_one(server: Program, thinking: bool) -> None:
    schema = random_schema(5)
    fields = {
        "messages": ask("Tell me about Bob as JSON."),
        "response_format": schema_of(schema),
        "max_tokens": 200,
        "chat_template_kwargs": {"enable_thinking": thinking},
        "thinking_budget": 30,
    }
    [whole] = server.post(CHAT, **fields)["choices"]
    streamed = joined_chat(server.stream(CHAT, **fields))[0]
    assert streamed["message"]["content"] == whole["message"]["content"]
    assert bool(whole["message"].get("reasoning_content")) == thinking
    assert violation(whole["message"]["content"], schema) is None


def test_a_call_is_made_because_the_request_says_so(server: Program) -> None:
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice in ("required", named):
        fields = {"messages": ask("Who are you?"), "tools": [TOOL], "tool_choice": choice, "max_tokens": 80}
        [whole] = server.post(CHAT, **fields)["choices"]
        assert (whole["finish_reason"], whole["message"]["content"]) == ("tool_calls", None)
        for made in whole["message"]["tool_calls"]:
            arguments = json.loads(made["function"]["arguments"])
            jsonschema.validate(arguments, TOOL["function"]["parameters"])  # type: ignore[index]
        streamed = joined_chat(server.stream(CHAT, **fields))[0]
        calls = [made["function"] for made in whole["message"]["tool_calls"]]
        assert [made["function"] for made in streamed["calls"]] == calls


def test_texts_have_forms_too(server: Program) -> None:
    form = {"type": "regex", "regex": "(red|green|blue){2}"}
    [choice] = server.post(TEXT, prompt="Colours: ", response_format=form)["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["text"].replace("red", "").replace("green", "").replace("blue", "") == ""
