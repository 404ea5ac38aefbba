"""Bodies of OpenAI's requests: what each field becomes; what cannot be used is refused by its name."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qanat.engine import SamplingParams, Structure
from qanat.errors import RequestError
from qanat.server.chat_request import read_chat_request
from qanat.server.completion_request import read_completion_request
from qanat.server.errors import error_response
from qanat.server.fields import FieldError
from qanat.server.wire import pack_request, unpack_request
from tests.server.bodies import (
    CALL,
    CHAT_FIELDS,
    COMPLETION_FIELDS,
    TOOL,
    VALUES,
    ask,
    deep,
    places,
    with_value,
)


def chat(**fields: Any) -> Any:
    return read_chat_request({"messages": ask(), **fields})


def complete(**fields: Any) -> Any:
    return read_completion_request({"prompt": "hi", **fields})


def test_every_field_of_a_chat_request_arrives() -> None:
    request = read_chat_request(copy.deepcopy(CHAT_FIELDS))
    assert request.params == SamplingParams(
        temperature=0.7,
        top_p=0.9,
        top_k=20,
        min_p=0.01,
        presence_penalty=0.5,
        frequency_penalty=0.5,
        repetition_penalty=1.1,
        seed=7,
        n=2,
        max_tokens=4,
        min_tokens=1,
        stop=("END",),
        stop_token_ids=(3,),
        logit_bias={5: -1.5},
        logprobs=2,
        thinking_budget=9,
    )
    assert (request.model, request.tools, request.enable_thinking) == ("pocket", [TOOL], True)
    assert (request.stream, request.include_usage) == (True, True)


def test_every_field_of_a_completion_request_arrives() -> None:
    request = read_completion_request(copy.deepcopy(COMPLETION_FIELDS))
    assert request.prompts == ["one", "two"]
    assert request.params == read_chat_request({**CHAT_FIELDS, "messages": ask()}).params
    assert (request.stream, request.include_usage, request.echo) == (True, True, False)


def test_what_a_body_does_not_say_is_left_to_the_model() -> None:
    assert chat().params == SamplingParams()
    assert complete().params == SamplingParams(max_tokens=16)  # OpenAI's default for texts
    assert chat(**{name: None for name in CHAT_FIELDS if name != "messages"}).params == SamplingParams()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_completion_tokens": 9}, {"max_tokens": 9}),
        ({"top_k": -1}, {"top_k": 0}),
        ({"stop": "END"}, {"stop": ("END",)}),
        ({"seed": 3.0}, {"seed": 3}),
        ({"logprobs": True}, {"logprobs": 0}),
        ({"logprobs": False, "top_logprobs": 0}, {}),
        ({"ignore_eos": True}, {"ignore_eos": True}),
    ],
)
def test_another_spelling_means_the_same(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert chat(**fields).params == SamplingParams(**expected)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("a", ["a"]),
        ([1, 2], [[1, 2]]),
        (["a", "b"], ["a", "b"]),
        ([[1], [2, 3]], [[1], [2, 3]]),
        (["a", [1]], ["a", [1]]),
    ],
)
def test_a_prompt_is_a_text_or_ids_or_a_list_of_these(prompt: Any, expected: Any) -> None:
    assert complete(prompt=prompt).prompts == expected


def test_tools_are_offered_unless_the_request_says_none() -> None:
    assert chat(tools=[TOOL]).tools == [TOOL]
    assert chat(tools=[TOOL], tool_choice="none", parallel_tool_calls=False).tools is None
    assert chat(tools=[], tool_choice="auto", parallel_tool_calls=False).tools is None


def schema(value: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": value}}


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("auto", True)),
        ({"tool_choice": None, "parallel_tool_calls": None}, ("auto", True)),
        ({"tool_choice": "required"}, ("required", True)),
        ({"tool_choice": named("get_weather"), "parallel_tool_calls": False}, (named("get_weather"), False)),
    ],
)
def test_what_is_asked_of_calls_arrives(given: dict[str, Any], expected: Any) -> None:
    request = chat(tools=[TOOL], **given)
    assert (request.tool_choice, request.parallel_tool_calls) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, Structure.json_object()),
        (schema({"type": "array"}), Structure.json_schema({"type": "array"})),
        (
            {"type": "json_schema", "json_schema": {"schema": {}, "strict": True, "description": "d"}},
            Structure.json_schema({}),
        ),
        ({"type": "regex", "regex": "a+"}, Structure.regex("a+")),
        ({"type": "grammar", "grammar": 'start: "a"'}, Structure.grammar('start: "a"')),
    ],
)
def test_the_form_of_a_reply_arrives_and_crosses_to_the_engine(given: Any, expected: Structure) -> None:
    for request in (chat(response_format=given), complete(response_format=given)):
        assert request.params.structure == expected
        assert unpack_request(pack_request(request)) == request


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"messages": None}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": [1]}, "messages[0]"),
    ({"messages": [*ask(), {"role": "robot", "content": "hi"}]}, "messages[1].role"),
    ({"messages": [{"content": "hi"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
    ({"messages": ask("\ud800")}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": "hi", "mood": "good"}]}, "messages[0].mood"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0]",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "poem", "text": "x"}]}]},
        "messages[0].content[0].type",
    ),
    ({"messages": [{"role": "assistant", "refusal": "no"}]}, "messages[0].refusal"),
    (
        {"messages": [{"role": "assistant", "reasoning": "a", "reasoning_content": "b"}]},
        "messages[0].reasoning",
    ),
    ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "?"}]}, "messages[0].tool_call_id"),
    ({"tools": [{"type": "custom"}]}, "tools[0].type"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"tools": [{"type": "function", "function": {"name": "a", "x": 1}}]}, "tools[0].function.x"),
    (
        {"tools": [{"type": "function", "function": {"name": "a", "strict": "yes"}}]},
        "tools[0].function.strict",
    ),
    ({"tools": [{"type": "function", "function": {"name": "a", "parameters": {"x": deep(99)}}}]}, "tools[0]"),
    ({"tools": [TOOL, TOOL]}, "tools[1].function.name"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice"),
    ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice.function"),
    ({"tools": [TOOL], "tool_choice": named("fly")}, "tool_choice.function.name"),
    ({"tools": [TOOL], "tool_choice": {**named("get_weather"), "x": 1}}, "tool_choice.x"),
    ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.type"),
    ({"tools": [TOOL], "parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ({"functions": [{}]}, "functions"),
    ({"response_format": "json_object"}, "response_format"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": {"type": "json_object", "x": 1}}, "response_format.x"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.schema"),
    ({"response_format": schema([])}, "response_format.json_schema.schema"),
    ({"response_format": schema({"x": deep(99)})}, "response_format.json_schema.schema"),
    ({"response_format": schema({"x": "a" * 2**18})}, "response_format.json_schema.schema"),
    ({"response_format": schema({"x": "\ud800"})}, "response_format.json_schema.schema"),
    ({"response_format": {"type": "regex"}}, "response_format.regex"),
    ({"response_format": {"type": "regex", "regex": 5}}, "response_format.regex"),
    ({"response_format": {"type": "grammar", "regex": "a"}}, "response_format.grammar"),
    ({"response_format": {"type": "grammar", "grammar": "a" * (2**18 + 1)}}, "response_format.grammar"),
    ({"thinking_budget": -1}, "thinking_budget"),
    ({"thinking_budget": 2**31}, "thinking_budget"),
    ({"response_format": {"type": "text", "x": 1}}, "response_format.x"),
    ({"chat_template_kwargs": {"enable_thinking": "yes"}}, "chat_template_kwargs.enable_thinking"),
    ({"chat_template_kwargs": {"chat_template": "x"}}, "chat_template_kwargs.chat_template"),
    ({"max_tokens": 5, "max_completion_tokens": 6}, "max_completion_tokens"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"temperature": 2.5}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": float("nan")}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 10**400}, "top_p"),
    ({"n": 0}, "n"),
    ({"n": 129}, "n"),
    ({"n": 1.5}, "n"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"seed": 2**63}, "seed"),
    ({"stop": ["x"] * 17}, "stop"),
    ({"stop": ""}, "stop"),
    ({"stop": [5]}, "stop[0]"),
    ({"logit_bias": {"5": 101}}, "logit_bias.5"),
    ({"logit_bias": {"five": 1}}, "logit_bias"),
    ({"logit_bias": {"5": 1, "05": 2}}, "logit_bias"),
    ({"logit_bias": {str(i): 1 for i in range(1025)}}, "logit_bias"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x"),
    ({"store": True}, "store"),
    ({"service_tier": "priority"}, "service_tier"),
    ({"reasoning_effort": "low"}, "reasoning_effort"),
    ({"x" * 500: 1}, "'" + "x" * 76 + "..."),
]


@pytest.mark.parametrize(
    ("fields", "param"), REFUSED, ids=[f"{i}-{param[:40]}" for i, (_, param) in enumerate(REFUSED)]
)
def test_what_cannot_be_used_is_refused_by_its_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(FieldError) as caught:
        chat(**fields)
    status, body = error_response(caught.value)
    assert (status, body["error"]["param"]) == (400, param)
    assert param.rpartition(".")[2] in body["error"]["message"]
    assert len(body["error"]["message"]) < 300


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": {}}, "prompt"),
        ({"prompt": [True]}, "prompt[0]"),
        ({"prompt": [1, "a"]}, "prompt[1]"),
        ({"prompt": [[1], []]}, "prompt[1]"),
        ({"prompt": [[2**40]]}, "prompt[0][0]"),
        ({"logprobs": True}, "logprobs"),
        ({"echo": True, "logprobs": 1, "stream": True}, "logprobs"),
        ({"best_of": 3}, "best_of"),
        ({"prompt": ["a"] * 1024, "n": 5}, "n"),
        ({"suffix": "end"}, "suffix"),
        ({"messages": ask()}, "messages"),
    ],
)
def test_a_completion_request_too(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(FieldError) as caught:
        complete(**fields)
    assert caught.value.param == param


@pytest.mark.parametrize("body", [None, [], "x", 5])
def test_a_body_must_be_an_object(body: Any) -> None:
    for read in (read_chat_request, read_completion_request):
        with pytest.raises(FieldError, match="the body must be an object"):
            read(body)


def test_fields_that_contradict_each_other_are_the_clients_to_mend() -> None:
    with pytest.raises(RequestError, match="min_tokens 5 is above max_tokens 4") as caught:
        chat(min_tokens=5, max_tokens=4)
    assert error_response(caught.value)[0] == 400


@settings(max_examples=600, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize(
    ("read", "fields"),
    [(read_chat_request, CHAT_FIELDS), (read_completion_request, COMPLETION_FIELDS)],
    ids=["chat", "completion"],
)
def test_any_value_in_any_place_gives_a_request_or_a_400(read: Any, fields: Any, data: st.DataObject) -> None:
    body = with_value(fields, data.draw(st.sampled_from(places(fields))), data.draw(VALUES))
    try:
        request = read(body)
    except RequestError as error:
        status, answer = error_response(error)
        assert status == 400
        assert len(json.dumps(answer)) < 2000
    else:
        assert isinstance(request.params, SamplingParams)


@settings(max_examples=200, deadline=None)
@given(body=VALUES)
def test_any_body_gives_a_request_or_a_400(body: Any) -> None:
    for read in (read_chat_request, read_completion_request):
        status = 200
        try:
            read(body)
        except RequestError as error:
            status = error_response(error)[0]
        assert status in (200, 400)


def test_a_history_is_put_into_the_form_that_templates_read() -> None:
    messages = [
        *ask(),
        {"role": "assistant", "content": None, "reasoning": "hm", "tool_calls": [CALL], "refusal": None},
        {"role": "tool", "content": "sunny", "tool_call_id": "call_1", "name": "get_weather"},
        {
            "role": "assistant",
            "content": "It is sunny.",
            "tool_calls": [],
            "annotations": [],
            "function_call": None,
        },
        {"role": "user", "content": "thanks"},
    ]
    read = chat(messages=messages).messages
    assert read[1]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": {"city": "Yazd"}}
    assert (read[1]["content"], read[1]["reasoning_content"]) == ("", "hm")
    assert read[2] == messages[2]
    assert read[3] == {"role": "assistant", "content": "It is sunny."}
    assert chat(messages=[{"role": "developer", "content": "x"}, *ask()]).messages[0]["role"] == "system"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        ("  ", {}),
        (None, {}),
        ('{"a": [1, null]}', {"a": [1, None]}),
        ({"a": 1}, {"a": 1}),
        ('{"big": ' + "9" * 300 + "}", {"big": int("9" * 300)}),
        ("[]", None),
        ("{", None),
        ("5", None),
        (5, None),
        ('{"a": NaN}', None),
        ('{"a": "\\ud800"}', None),
        ('{"a": ' + "[" * 100_000, None),
        ('{"a": ' + "[" * 100 + "]" * 100 + "}", None),
        ('{"a": ' + "9" * 5000 + "}", None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_arguments_of_calls_are_the_text_of_an_object(arguments: Any, expected: Any) -> None:
    call = {"function": {"name": "f", "arguments": arguments}}
    messages = [*ask(), {"role": "assistant", "tool_calls": [call]}]
    if expected is not None:
        assert chat(messages=messages).messages[1]["tool_calls"][0]["function"]["arguments"] == expected
        return
    with pytest.raises(FieldError) as caught:
        chat(messages=messages)
    assert caught.value.param == "messages[1].tool_calls[0].function.arguments"


def answer(identity: str | None, text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text, **({} if identity is None else {"tool_call_id": identity})}


def test_answers_of_tools_stand_in_the_order_of_the_calls() -> None:
    calls = {"role": "assistant", "tool_calls": [{**CALL, "id": name} for name in "abc"]}
    later = {"role": "assistant", "tool_calls": [{**CALL, "id": "d"}]}
    given = [calls, answer("c", "3"), answer("a", "1"), answer("b", "2"), later, answer("d", "4"), *ask()]
    read = chat(messages=given).messages
    assert [m["content"] for m in read] == ["", "1", "2", "3", "", "4", "hi"]
    without_ids = [calls, answer(None, "1"), answer(None, "2"), *ask()]
    assert [m["content"] for m in chat(messages=without_ids).messages] == ["", "1", "2", "hi"]


@pytest.mark.parametrize(
    "answers", [[answer("x", "1")], [answer("a", "1"), answer("a", "2")], [*ask(), answer("a", "1")]]
)
def test_an_answer_to_no_call_is_refused(answers: list[Any]) -> None:
    with pytest.raises(FieldError, match="tool_call_id"):
        chat(messages=[{"role": "assistant", "tool_calls": [{**CALL, "id": "a"}]}, *answers])
