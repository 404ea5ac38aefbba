"""What clients of OpenAI's API depend on, over a real connection to a real `qanat serve`."""

from __future__ import annotations

from typing import Any

import pytest

from qanat.engine import LLM, SamplingParams
from tests.server.bodies import TOOL, ask
from tests.server.client import joined_chat, joined_text
from tests.server.http.serving import Program, eventually
from tests.server.http.storm import storm

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def without_time(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in ("id", "created", "usage")}


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": ask("Who are you?")},
        {"messages": ask("Who are you?"), "n": 3, "temperature": 1.2, "seed": 5, "logprobs": True},
        {"messages": ask("What is the weather in Paris?"), "tools": [TOOL]},
        {"messages": ask("What is 2 + 3?"), "chat_template_kwargs": {"enable_thinking": True}},
    ],
    ids=range(4),
)
def test_a_chat_is_answered_whole_and_streamed_alike(server: Program, fields: dict[str, Any]) -> None:
    fields = {"model": "tiny/pocket", "max_tokens": 60, **fields}
    whole = server.post(CHAT, **fields)
    objects = server.stream(CHAT, stream_options={"include_usage": True}, **fields)
    assert (whole["object"], whole["model"]) == ("chat.completion", "tiny/pocket")
    assert len({item["id"] for item in objects}) == 1
    *_, last = objects
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], whole["usage"]["total_tokens"])
    choices = joined_chat(objects)
    assert len(choices) == fields.get("n", 1)
    for choice in whole["choices"]:
        streamed = choices[choice["index"]]
        assert streamed["message"]["content"] == (choice["message"]["content"] or "")
        assert streamed["finish_reason"] == choice["finish_reason"]
        calls = [call["function"] for call in choice["message"].get("tool_calls", ())]
        assert [call["function"] for call in streamed["calls"]] == calls
        assert streamed["logprobs"] == (choice["logprobs"] and choice["logprobs"]["content"])


def test_the_server_says_what_the_model_says_alone(server: Program, pocket: LLM) -> None:
    reply = pocket.generate("Once upon", SamplingParams(temperature=1.0, seed=3, max_tokens=50))
    assert isinstance(reply.text, str)
    fields = {"prompt": "Once upon", "temperature": 1.0, "seed": 3, "max_tokens": 50}
    [choice] = server.post(TEXT, **fields)["choices"]
    assert choice["text"] == joined_text(server.stream(TEXT, **fields))[0]["text"] == reply.text


def test_prompts_are_echoed_and_several_are_answered_in_order(server: Program) -> None:
    fields = {"prompt": ["one", "two"], "n": 2, "echo": True, "max_tokens": 5}
    whole = server.post(TEXT, **fields)
    streamed = joined_text(server.stream(TEXT, **fields))
    assert [c["index"] for c in whole["choices"]] == [0, 1, 2, 3]
    for choice, prompt in zip(whole["choices"], ("one", "one", "two", "two"), strict=True):
        assert choice["text"].startswith(prompt)
        assert streamed[choice["index"]]["text"] == choice["text"]


def test_the_next_turn_reads_from_the_cache(server: Program) -> None:
    messages = ask("My name is Ada. Remember it.")
    first = server.post(CHAT, messages=messages)
    messages += [first["choices"][0]["message"], *ask("What is my name?")]
    second = server.post(CHAT, messages=messages)
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] > 10


def test_models_are_listed_and_others_refused(server: Program) -> None:
    status, listed, _ = server.ask("GET", "/v1/models")
    assert (status, [model["id"] for model in listed["data"]]) == (200, ["tiny/pocket"])
    assert server.ask("GET", "/v1/models/tiny/pocket")[:2] == (200, listed["data"][0])
    assert listed["data"][0]["max_model_len"] == 4096
    defaults = listed["data"][0]["chat_defaults"]
    assert (defaults["thinks"], defaults["can_switch"]) == (False, True)
    assert defaults["sampling"]["temperature"] == defaults["thinking_sampling"]["temperature"] == 0
    assert "max_tokens" in defaults["sampling"]
    status, body, _ = server.ask("GET", "/v1/models/pocket")
    assert (status, body["error"]["code"]) == (404, "model_not_found")
    assert server.refused(404, CHAT, messages=ask(), model="gpt")["code"] == "model_not_found"


def test_texts_become_tokens_and_prompts(server: Program, pocket: LLM) -> None:
    text = "Hello <|im_end|> \U0001f642"
    ids = server.post("/tokenize", content=text)
    assert ids == {"tokens": pocket.tokenizer.encode(text), "count": len(ids["tokens"])}
    assert server.post("/detokenize", tokens=ids["tokens"]) == {"content": text}
    plain = server.post("/tokenize", content=text, parse_special=False)["tokens"]
    assert plain == pocket.tokenizer.encode(text, split_special_tokens=True) != ids["tokens"]
    prompt = server.post("/apply-template", messages=ask("hi"), tools=[TOOL])["prompt"]
    assert prompt == pocket.template.render(ask("hi"), tools=[TOOL], add_generation_prompt=True)
    assert server.refused(400, "/tokenize", content="x", add_special=True)["param"] == "add_special"
    assert server.refused(400, "/detokenize", tokens=[10**6])["message"].startswith("there is no token")
    assert server.refused(400, "/apply-template", messages=[])["param"] == "messages"


def test_a_prompt_is_explained_stage_by_stage(server: Program, pocket: LLM) -> None:
    told = server.post("/explain", messages=ask("Hé, what's up?"), tools=[TOOL])
    prompt = pocket.template.render(ask("Hé, what's up?"), tools=[TOOL], add_generation_prompt=True)
    stages = pocket.tokenizer.explain(prompt)
    assert (told["prompt"], told["tokens"]) == (prompt, pocket.tokenizer.encode(prompt))
    assert "".join(stretch["text"] for stretch in told["stretches"]) == prompt
    assert [s["added_token"] for s in told["stretches"] if s["added_token"] is not None] == [
        s.added_token.id for s in stages.stretches if s.added_token is not None
    ]
    pieces = [piece for stretch in told["stretches"] for piece in stretch["pieces"]]
    [expected] = [p for s in stages.stretches for p in s.pieces if p.text == " what"]
    [got] = [piece for piece in pieces if piece["text"] == " what"]
    assert got["ids"] == list(expected.ids)
    assert [merge["rank"] for merge in got["merges"]] == [merge.rank for merge in expected.merges]
    long = server.refused(400, "/explain", messages=ask("word " * 9000))
    assert long["code"] == "context_length_exceeded"


def test_a_stream_tells_how_far_the_prompt_is_read_if_it_is_asked_to(server: Program) -> None:
    fields = {"messages": ask("word " * 1200), "max_tokens": 3, "stream_options": {"include_usage": True}}
    objects = server.stream(CHAT, return_progress=True, **fields)
    told = [item["prompt_progress"] for item in objects if "prompt_progress" in item]
    assert len(told) > 2
    read = [item["processed"] for item in told]
    assert read == sorted(set(read))
    assert {item["total"] for item in told} == {objects[-1]["usage"]["prompt_tokens"]}
    first_choice = next(place for place, item in enumerate(objects) if item["choices"])
    assert all("prompt_progress" in item for item in objects[:first_choice])
    longer = {**fields, "messages": ask("word " * 2400)}
    first = next(i for i in server.stream(CHAT, return_progress=True, **longer) if "prompt_progress" in i)
    assert 1000 < first["prompt_progress"]["cache"] < first["prompt_progress"]["processed"]
    assert not any("prompt_progress" in item for item in server.stream(CHAT, **fields))
    assert server.refused(400, CHAT, return_progress=True, messages=ask())["param"] == "return_progress"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"tool_choice": "required"}, "tool_choice", None),
        ({"response_format": {"type": "regex", "regex": "("}}, None, "invalid_grammar"),
        ({"messages": ask("word " * 9000)}, None, "context_length_exceeded"),
        ({"messages": [{"role": "user", "content": "hi"}] * 8193}, "messages", None),
        ({"n": 129}, "n", None),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs", None),
        ({"stop": ["x"] * 17}, "stop", None),
        ({"logit_bias": {str(i): 1 for i in range(1025)}}, "logit_bias", None),
        ({"seed": 2**63}, "seed", None),
        ({"max_tokens": 0}, "max_tokens", None),
        ({"logit_bias": {"99999999": 1}}, None, None),
        ({"messages": [{"role": "tool", "content": "?", "tool_call_id": "x"}]}, None, None),
        ({"guided_regex": "a+"}, "guided_regex", "unknown_parameter"),
    ],
    ids=range(13),
)
def test_what_cannot_be_done_is_refused_before_the_stream_begins(
    server: Program, fields: dict[str, Any], param: str | None, code: str | None, stream: bool
) -> None:
    error = server.refused(400, CHAT, **{"messages": ask(), "stream": stream, **fields})
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert code is None or error["code"] == code
    assert param is None or error["param"] == param


@pytest.mark.parametrize("word", ["ab" * 2000, "a" + "\n" * 3000 + "b", "calculator" * 3500])
def test_a_prompt_with_an_endless_word_is_not_explained(server: Program, word: str) -> None:
    error = server.refused(400, "/explain", messages=ask(word))
    assert error["code"] == "context_length_exceeded"


def test_bodies_that_are_no_json_paths_and_methods_get_an_error_object(server: Program) -> None:
    for body in (b"", b"{", b"\xff", b'{"a": NaN}', b"[" * 100_000, b'{"prompt": "\\ud800"}', b"[]"):
        status, answer, _ = server.ask("POST", TEXT, body)
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error"), body
    for method, path, expected in (
        ("GET", CHAT, 405),
        ("POST", "/health", 405),
        ("POST", "/", 405),
        ("GET", "/page/", 404),
        ("GET", "/page/../health", 404),
        ("GET", "/page/index.html", 404),
        ("POST", "/v1/chat/completions/", 404),
    ):
        status, answer, _ = server.ask(method, path)
        assert (status, "message" in answer["error"]) == (expected, True), path


def test_whole_numbers_beyond_64_bits_reach_the_template(server: Program) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"maximum": 10**30}}}
    assert str(10**30) in server.post("/apply-template", messages=ask(), tools=[tool])["prompt"]


def test_figures_are_counted(server: Program) -> None:
    before = server.metric("qanat_output_tokens_total")
    server.post(TEXT, prompt="x", max_tokens=7, ignore_eos=True)
    assert server.metric("qanat_output_tokens_total") == before + 7
    assert server.metric("qanat_up") == 1
    server.ask("GET", "/made/up/by/a/client")
    text = server.ask("GET", "/metrics")[1]
    assert 'qanat_http_answers_total{path="other",status="404"}' in text
    assert "made" not in text


def test_of_32_streams_a_fifth_leave_and_everything_is_free_again(server: Program) -> None:
    cancelled = server.metric("qanat_sequences_cancelled_total")
    storm(server)
    eventually(lambda: server.metric("qanat_requests_inside") == 0)
    eventually(lambda: server.metric("qanat_sequences_running") == 0)
    assert server.metric("qanat_sequences_cancelled_total") > cancelled
    assert server.metric("qanat_sequences_failed_total") == 0


def test_too_long_a_prompt_is_told_in_the_words_that_clients_look_for(server: Program) -> None:
    """litellm knows no other sign of it, and chooses a longer model by it."""
    error = server.refused(400, CHAT, messages=ask("word " * 9000))
    assert "this model's maximum context length is 4096" in error["message"]
