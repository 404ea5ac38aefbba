"""Replies as OpenAI's objects, whole and streamed: the same, in the form that clients depend on."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest

from qanat.engine import LLM, Reply, ReplyChunk, SamplingParams, TokenLogprob, Usage
from qanat.engine.reply import Alternative
from qanat.errors import (
    CheckpointError,
    ContextLengthError,
    NumericalError,
    QanatError,
    RequestError,
    TemplateError,
    TokenizerError,
    UnsupportedError,
)
from qanat.server.answering import check_model, echoed_prompts, start_chat, start_completion
from qanat.server.chat_request import read_chat_request
from qanat.server.completion_request import read_completion_request
from qanat.server.errors import error_response
from qanat.server.fields import FieldError
from qanat.server.responses import Head, chat_completion, text_completion, usage_object
from qanat.server.streams import ChatStream, TextStream
from qanat.text.dialects import ReplyDelta, ToolCall
from tests.server.bodies import TOOL, ask
from tests.server.client import joined_chat, joined_text

HEAD = Head("chatcmpl-1", 1700000000, "pocket")
WEATHER = [{"role": "user", "content": "What is the weather in Paris?"}]


def whole_and_streamed(llm: LLM, **fields: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A chat answered once, as a whole object and as a stream's objects."""
    request = read_chat_request(fields)
    stream = ChatStream(HEAD, include_usage=True)
    replies, objects = {}, []
    for chunk in start_chat(llm, request):
        objects += stream.feed(chunk)
        if chunk.reply is not None:
            replies[chunk.choice_index] = chunk.reply
    return chat_completion(HEAD, [replies[i] for i in sorted(replies)]), objects + stream.finish()


CHATS: list[dict[str, Any]] = [
    {"messages": ask("Who are you?")},
    {"messages": ask("Who are you?"), "n": 3, "temperature": 1.2, "seed": 5},
    {"messages": ask("Who are you?"), "logprobs": True, "top_logprobs": 2},
    {
        "messages": ask("Write a word in Chinese: \u4f60\u597d \U0001f642"),
        "logprobs": True,
        "temperature": 1.5,
        "seed": 1,
    },
    {"messages": WEATHER, "tools": [TOOL]},
    {"messages": WEATHER, "tools": [TOOL], "logprobs": True},
    {"messages": ask("What is 2 + 3?"), "chat_template_kwargs": {"enable_thinking": True}},
    {"messages": ask("What is 2 + 3?"), "chat_template_kwargs": {"enable_thinking": True}, "max_tokens": 3},
]


@pytest.mark.parametrize("fields", CHATS, ids=range(len(CHATS)))
def test_a_joined_chat_stream_is_the_whole_answer(llm: LLM, fields: dict[str, Any]) -> None:
    whole, objects = whole_and_streamed(llm, **{"max_tokens": 60, **fields})
    json.dumps([whole, objects], allow_nan=False)
    choices = joined_chat(objects)
    assert len(choices) == len(whole["choices"]) == fields.get("n", 1)
    for choice in whole["choices"]:
        other, message = choices[choice["index"]], choice["message"]
        assert other["message"]["content"] == (message["content"] or "")
        assert other["message"]["reasoning_content"] == message.get("reasoning_content", "")
        assert other["calls"] == message.get("tool_calls", [])
        assert other["finish_reason"] == choice["finish_reason"]
        assert other["logprobs"] == (choice["logprobs"] and choice["logprobs"]["content"])
    *before, last = objects
    assert {item["id"] for item in objects} == {"chatcmpl-1"}
    assert {item["object"] for item in objects} == {"chat.completion.chunk"}
    assert all(item["usage"] is None for item in before)
    assert (last["choices"], last["usage"]) == ([], whole["usage"])


def test_the_built_in_model_calls_a_tool_and_thinks(llm: LLM) -> None:
    """Or the comparison above would compare nothing of that kind."""
    called, _ = whole_and_streamed(llm, messages=WEATHER, tools=[TOOL], max_tokens=60)
    [choice] = called["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"city": "Paris"}
    cut, _ = whole_and_streamed(llm, **CHATS[-1])
    [choice] = cut["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "length")
    assert choice["message"]["reasoning_content"]
    assert cut["usage"]["completion_tokens_details"]["reasoning_tokens"] == 3


def test_a_reply_with_a_call_can_be_given_back(llm: LLM) -> None:
    called, _ = whole_and_streamed(llm, messages=WEATHER, tools=[TOOL], max_tokens=60)
    message = called["choices"][0]["message"]
    answer = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "sunny, 21 degrees"}
    told, _ = whole_and_streamed(llm, messages=[*WEATHER, message, answer], tools=[TOOL], max_tokens=60)
    assert "sunny" in told["choices"][0]["message"]["content"]


TEXTS: list[dict[str, Any]] = [
    {"prompt": "Hello"},
    {"prompt": "Hello", "logprobs": 2},
    {"prompt": ["Hello", "My name"], "n": 2, "temperature": 1.3, "seed": 3, "logprobs": 0},
    {"prompt": "Hello", "echo": True},
    {"prompt": [[5, 6, 7], [8]], "echo": True, "n": 2, "temperature": 1.3},
    {
        "prompt": "caf\u00e9 \u4f60\u597d \U0001f642",
        "temperature": 2.0,
        "seed": 2,
        "logprobs": 3,
        "ignore_eos": True,
    },
]


@pytest.mark.parametrize("fields", TEXTS, ids=range(len(TEXTS)))
def test_a_joined_text_stream_is_the_whole_answer(llm: LLM, fields: dict[str, Any]) -> None:
    request = read_completion_request(fields)
    echoed = echoed_prompts(llm, request)
    stream = TextStream(HEAD, n=request.params.n, include_usage=True, echoed=echoed)
    replies: dict[int, dict[int, Reply]] = {}
    objects = []
    for chunk in start_completion(llm, request):
        objects += stream.feed(chunk)
        if chunk.reply is not None:
            replies.setdefault(chunk.prompt_index, {})[chunk.choice_index] = chunk.reply
    objects += stream.finish()
    whole = text_completion(HEAD, [[r[c] for c in sorted(r)] for _, r in sorted(replies.items())], echoed)
    json.dumps([whole, objects], allow_nan=False)
    choices = joined_text(objects)
    assert [{"index": i, **choices[i]} for i in sorted(choices)] == whole["choices"]
    assert len(choices) == len(request.prompts) * request.params.n
    assert (objects[-1]["choices"], objects[-1]["usage"]) == ([], whole["usage"])
    if fields.get("echo"):
        for place, choice in enumerate(whole["choices"]):
            assert choice["text"].startswith(echoed[place // request.params.n].text)  # type: ignore[index]


def test_without_the_wish_no_usage_is_streamed() -> None:
    reply = Reply("", None, (), (), "stop", Usage(1, 1), None, 0)
    for stream in (ChatStream(HEAD, include_usage=False), TextStream(HEAD, n=1, include_usage=False)):
        objects = stream.feed(ReplyChunk(reply=reply)) + stream.finish()
        assert objects
        assert all("usage" not in item for item in objects)


def test_a_prompt_counts_once_however_many_replies_it_has(llm: LLM) -> None:
    one, _ = whole_and_streamed(llm, messages=ask(), max_tokens=4, ignore_eos=True)
    three, _ = whole_and_streamed(llm, messages=ask(), max_tokens=4, ignore_eos=True, n=3)
    assert three["usage"]["prompt_tokens"] == one["usage"]["prompt_tokens"]
    assert three["usage"]["completion_tokens"] == 12
    assert three["usage"]["total_tokens"] == one["usage"]["prompt_tokens"] + 12


def token(data: bytes, logprob: float, *top: Alternative) -> TokenLogprob:
    return TokenLogprob(1, data.decode(errors="replace"), data, logprob, tuple(top))


def test_log_probabilities_have_raw_bytes_and_no_infinities() -> None:
    never = Alternative(2, "x", b"x", -math.inf)
    tokens = (
        token("\u4f60".encode()[:2], -0.5, never),
        token("\u4f60".encode()[2:] + b"!", -math.inf),
        token(b" a", -1.0),
    )
    reply = Reply("\u4f60! a", None, (), (1, 1, 1), "stop", Usage(1, 3), tokens, 0)
    chat = chat_completion(HEAD, [reply])["choices"][0]["logprobs"]["content"]
    assert [entry["bytes"] for entry in chat] == [[0xE4, 0xBD], [0xA0, 0x21], [0x20, 0x61]]
    assert chat[0]["top_logprobs"] == [{"token": "x", "logprob": -9999.0, "bytes": [0x78]}]
    assert chat[1]["logprob"] == -9999.0
    text = text_completion(HEAD, [[reply]])["choices"][0]["logprobs"]
    assert text["tokens"] == ["bytes:\\xe4\\xbd", "bytes:\\xa0\\x21", " a"]
    assert text["text_offset"] == [0, 0, 2]
    assert text["token_logprobs"] == [-0.5, -9999.0, -1.0]


@pytest.mark.parametrize("prompt", ["caf\u00e9 \U0001f642 Hello", [5, 6, 7]])
def test_an_echoed_prompt_has_log_probabilities_of_its_own(llm: LLM, prompt: Any) -> None:
    request = read_completion_request({"prompt": prompt, "echo": True, "logprobs": 2, "max_tokens": 3})
    [reply] = [chunk.reply for chunk in start_completion(llm, request) if chunk.reply]
    whole = text_completion(HEAD, [[reply]], echoed_prompts(llm, request))
    [choice] = whole["choices"]
    logprobs = choice["logprobs"]
    ids = llm.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    assert len(logprobs["tokens"]) == len(ids) + len(reply.token_ids)
    assert (logprobs["token_logprobs"][0], logprobs["top_logprobs"][0]) == (None, None)
    assert all(isinstance(value, float) for value in logprobs["token_logprobs"][1:])
    for token, offset in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
        assert token.startswith(("bytes:", "<|")) or choice["text"][offset:].startswith(token)
    json.dumps(whole, allow_nan=False)


def test_an_empty_answer_is_an_empty_string_and_silence_is_null() -> None:
    def content(text: str, reasoning: str | None = None, calls: tuple[ToolCall, ...] = ()) -> object:
        reply = Reply(text, reasoning, calls, (), "stop", Usage(1, 1), None, 0)
        return chat_completion(HEAD, [reply])["choices"][0]["message"]["content"]

    assert content("") == ""
    assert content("", "hm") is None
    assert content("", None, (ToolCall("1", "f", "{}"),)) is None
    assert content("yes", "hm") == "yes"


def test_a_call_streams_its_name_once_and_then_its_arguments() -> None:
    stream = ChatStream(HEAD, include_usage=False)
    deltas = (
        ReplyDelta("content", "Let me see."),
        ReplyDelta("tool_call_start", "", 0, "f", "call_1"),
        ReplyDelta("tool_call_arguments", '{"a":', 0),
        ReplyDelta("tool_call_arguments", " 1}", 0),
        ReplyDelta("tool_call_start", "", 1, "g", "call_2"),
        ReplyDelta("tool_call_arguments", "{}", 1),
    )
    [choice] = joined_chat(stream.feed(ReplyChunk(deltas=deltas))).values()
    assert [(call["id"], call["function"]) for call in choice["calls"]] == [
        ("call_1", {"name": "f", "arguments": '{"a": 1}'}),
        ("call_2", {"name": "g", "arguments": "{}"}),
    ]


def test_log_probabilities_wait_for_the_text_of_their_tokens() -> None:
    chunks = [
        ReplyChunk(logprobs=(token(b"\xe4", -1.0),)),
        ReplyChunk(
            text="\u4f60", deltas=(ReplyDelta("content", "\u4f60"),), logprobs=(token(b"\xbd\xa0", -2.0),)
        ),
    ]
    stream = ChatStream(HEAD, include_usage=False)
    [role], [content] = stream.feed(chunks[0]), stream.feed(chunks[1])
    assert role["choices"][0]["logprobs"] is None
    assert [entry["logprob"] for entry in content["choices"][0]["logprobs"]["content"]] == [-1.0, -2.0]
    text = TextStream(HEAD, n=1, include_usage=False)
    assert text.feed(chunks[0]) == []
    [item] = text.feed(chunks[1])
    assert item["choices"][0]["logprobs"]["token_logprobs"] == [-1.0, -2.0]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RequestError("x"), 400, None),
        (TemplateError("x"), 400, None),
        (TokenizerError("x"), 400, None),
        (UnsupportedError("x"), 400, None),
        (ContextLengthError("x"), 400, "context_length_exceeded"),
        (FieldError("x", "n", "invalid"), 400, "invalid"),
        (FieldError("x", "model", "model_not_found"), 404, "model_not_found"),
        (NumericalError("x"), 500, None),
        (CheckpointError("x"), 500, None),
        (QanatError("x"), 500, None),
        (ValueError("secret"), 500, None),
    ],
    ids=repr,
)
def test_errors_have_openais_form(error: Exception, status: int, code: str | None) -> None:
    answer = error_response(error)
    kind = "invalid_request_error" if status < 500 else "server_error"
    assert answer[0] == status
    assert set(answer[1]["error"]) == {"message", "type", "param", "code"}
    assert (answer[1]["error"]["type"], answer[1]["error"]["code"]) == (kind, code)
    assert "secret" not in answer[1]["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"messages": ask("a " * 5000)}, "context_length_exceeded"),
        ({"messages": [*ask(), {"role": "system", "content": "late"}]}, None),
        ({"messages": ask("<|image_pad|>")}, None),
        ({"messages": ask(), "logit_bias": {"100000": 1}}, None),
        ({"messages": ask(), "top_k": 5}, None),
        ({"messages": ask(), "stop": ["a<|im_end|>"]}, None),
    ],
    ids=["long", "late system", "vision", "no such id", "greedy top_k", "stop"],
)
def test_what_only_the_model_can_refuse_is_a_400_too(pocket: LLM, fields: Any, code: str | None) -> None:
    with pytest.raises(QanatError) as caught:
        list(start_chat(pocket, read_chat_request(fields)))
    status, body = error_response(caught.value)
    assert (status, body["error"]["code"]) == (400, code)


def test_a_wish_that_the_template_cannot_fulfil_is_refused(
    pocket: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qanat.text import ChatTemplate

    plain = ChatTemplate("{{ messages[0].content }}<|im_start|>assistant\n")
    monkeypatch.setitem(pocket.__dict__, "template", plain)
    body = {"messages": ask(), "chat_template_kwargs": {"enable_thinking": True}}
    with pytest.raises(FieldError, match="never opens a thought"):
        start_chat(pocket, read_chat_request(body))


@pytest.mark.parametrize("thinking", [None, True, False])
def test_what_a_request_does_not_say_is_as_the_model_card_advises(
    llm: LLM, monkeypatch: pytest.MonkeyPatch, thinking: bool | None
) -> None:
    asked = []

    def card(checkpoint: object, thinks: bool) -> SamplingParams:
        asked.append(thinks)
        return dataclasses.replace(SamplingParams.greedy(), max_tokens=3)

    monkeypatch.setattr("qanat.server.answering.model_card_params", card)
    more: dict[str, Any] = {} if thinking is None else {"chat_template_kwargs": {"enable_thinking": thinking}}
    said, _ = whole_and_streamed(llm, messages=ask("Who are you?"), **more)
    assert said["usage"]["completion_tokens"] == 3
    longer, _ = whole_and_streamed(llm, messages=ask("Who are you?"), max_tokens=5, **more)
    assert longer["usage"]["completion_tokens"] == 5
    list(start_completion(llm, read_completion_request({"prompt": "Hello"})))
    assert asked == [bool(thinking), bool(thinking), False]


def test_only_the_model_that_answers_can_be_asked_for() -> None:
    check_model(None, ["pocket"])
    check_model("pocket", ["pocket"])
    with pytest.raises(FieldError, match="'pocket'"):
        check_model("gpt-4o", ["pocket"])


def test_what_a_prompts_replies_find_of_one_another_is_not_cached_from_before() -> None:
    first, sibling = Usage(9, 1, cached_tokens=2), Usage(9, 1, cached_tokens=8)
    for order in ([first, sibling], [sibling, first]):  # as they end
        assert usage_object([order])["prompt_tokens_details"] == {"cached_tokens": 2}
