"""OpenAI's own client in Python, the current one and 1.x."""

from __future__ import annotations

import asyncio
import json

import openai
from checks import KEY, MODEL, PERSON, URL, WEATHER, ask, check, raises, run
from pydantic import BaseModel

client = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=60)
create = client.chat.completions.create


@check
def a_chat_is_answered_with_its_usage():
    answer = create(model=MODEL, messages=ask("Who are you?"), temperature=0)
    [choice] = answer.choices
    assert choice.message.content
    assert choice.finish_reason == "stop"
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens > 0
    assert usage.completion_tokens_details.reasoning_tokens == 0
    assert usage.prompt_tokens_details.cached_tokens >= 0
    assert answer._request_id


@check
def it_remembers_over_turns_and_reads_from_the_cache():
    messages = ask("My name is Winston.")
    first = create(model=MODEL, messages=messages, temperature=0).choices[0].message
    messages += [first, *ask("What is my name?")]
    answer = create(model=MODEL, messages=messages, temperature=0)
    assert "Winston" in answer.choices[0].message.content
    assert answer.usage.prompt_tokens_details.cached_tokens > 0


@check
def the_deltas_of_a_stream_join_to_the_whole():
    fields = {
        "model": MODEL,
        "messages": ask("Tell me a short story about a dragon."),
        "seed": 5,
        "max_tokens": 50,
    }
    whole = create(**fields)
    text, ends, ids, usage = "", [], set(), None
    for chunk in create(**fields, stream=True, stream_options={"include_usage": True}):
        ids.add(chunk.id)
        if not chunk.choices:
            usage = chunk.usage
            continue
        assert chunk.usage is None
        text += chunk.choices[0].delta.content or ""
        ends.append(chunk.choices[0].finish_reason)
    assert text == whole.choices[0].message.content
    assert ends[-1] == whole.choices[0].finish_reason
    assert set(ends[:-1]) == {None}
    assert len(ids) == 1
    assert usage.total_tokens == whole.usage.total_tokens


@check
def a_seed_repeats_an_answer_and_n_gives_several():
    fields = {
        "model": MODEL,
        "messages": ask("A story about a kettle, please."),
        "temperature": 1.5,
        "max_tokens": 30,
    }
    texts = [[c.message.content for c in create(**fields, seed=seed, n=3).choices] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert len(set(texts[0])) == 3


@check
def log_probabilities_tell_of_every_token():
    answer = create(model=MODEL, messages=ask("Who are you?"), logprobs=True, top_logprobs=3, temperature=0)
    [choice] = answer.choices
    tokens = choice.logprobs.content
    assert len(tokens) == answer.usage.completion_tokens
    text = b"".join(bytes(token.bytes) for token in tokens).decode()
    assert choice.message.content in text
    for token in tokens:
        assert token.logprob <= 0
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].logprob >= token.logprob - 1e-6


@check
def a_stop_text_ends_the_answer_and_is_left_out():
    fields = {"model": MODEL, "messages": ask("Say falcon three times."), "temperature": 0}
    text = create(**fields).choices[0].message.content
    stop = text[len(text) // 2 :][:3]
    [choice] = create(**fields, stop=[stop, "never"]).choices
    assert choice.message.content == text[: text.index(stop)]
    assert choice.finish_reason == "stop"
    [choice] = create(**fields, max_tokens=2).choices
    assert choice.finish_reason == "length"


@check
def a_tool_is_called_and_its_answer_read():
    messages = ask("What is the weather in Paris?")
    fields = {"model": MODEL, "tools": [WEATHER], "temperature": 0}
    answer = create(messages=messages, **fields).choices[0]
    assert answer.finish_reason == "tool_calls"
    [call] = answer.message.tool_calls
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    messages += [answer.message, {"role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"}]
    last = create(messages=messages, **fields).choices[0]
    assert "sunny" in last.message.content
    assert last.finish_reason == "stop"


@check
def a_streamed_call_joins_to_the_same_call():
    fields = {
        "model": MODEL,
        "messages": ask("What is the weather in Paris?"),
        "tools": [WEATHER],
        "temperature": 0,
    }
    [call] = create(**fields).choices[0].message.tool_calls
    name, arguments, ends = None, "", []
    for chunk in create(**fields, stream=True):
        delta = chunk.choices[0].delta
        ends.append(chunk.choices[0].finish_reason)
        for piece in delta.tool_calls or ():
            assert piece.index == 0
            name = name or piece.function.name
            arguments += piece.function.arguments or ""
    assert (name, arguments) == (call.function.name, call.function.arguments)
    assert ends[-1] == "tool_calls"


@check
def a_call_can_be_demanded_and_forbidden():
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        answer = create(
            model=MODEL, messages=ask("Who are you?"), tools=[WEATHER], tool_choice=choice, max_tokens=200
        )
        [call] = answer.choices[0].message.tool_calls
        assert call.function.name == "get_weather"
        assert isinstance(json.loads(call.function.arguments)["city"], str)
    fields = {"model": MODEL, "messages": ask("What is the weather in Paris?"), "tools": [WEATHER]}
    assert not create(**fields, tool_choice="none").choices[0].message.tool_calls


@check
def thoughts_come_apart_from_the_answer():
    fields = {"model": MODEL, "messages": ask("What is 47 + 38?"), "temperature": 0}
    thinking = {"chat_template_kwargs": {"enable_thinking": True}}
    answer = create(**fields, extra_body=thinking)
    message = answer.choices[0].message
    assert message.reasoning_content
    assert "<think>" not in message.content
    assert answer.usage.completion_tokens_details.reasoning_tokens > 0
    parts = {"reasoning_content": "", "content": ""}
    for chunk in create(**fields, extra_body=thinking, stream=True):
        for name, value in parts.items():
            parts[name] = value + (getattr(chunk.choices[0].delta, name, None) or "")
    assert parts == {"reasoning_content": message.reasoning_content, "content": message.content}


@check
def an_answer_keeps_to_a_schema():
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    messages = ask("Give me JSON with name Hector, age 41 and city Glasgow.")
    answer = create(model=MODEL, messages=messages, response_format=form, max_tokens=200)
    found = json.loads(answer.choices[0].message.content)
    assert set(found) == {"name", "age"}
    assert 0 <= found["age"] <= 150
    answer = create(
        model=MODEL, messages=messages, response_format={"type": "json_object"}, max_tokens=200, temperature=0
    )
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


@check
def an_answer_is_parsed_into_a_class():
    class Person(BaseModel):
        age: int
        adult: bool

    completions = getattr(client.chat.completions, "parse", None) or client.beta.chat.completions.parse
    answer = completions(model=MODEL, messages=ask("Who are you?"), response_format=Person, max_tokens=200)
    assert isinstance(answer.choices[0].message.parsed, Person)


@check
def errors_have_their_types():
    stranger = openai.OpenAI(base_url=URL, api_key="wrong", max_retries=0)
    raises(openai.AuthenticationError, lambda: stranger.models.list())
    error = raises(openai.NotFoundError, lambda: create(model="gpt-4o", messages=ask("hi")))
    assert (error.code, error.param) == ("model_not_found", "model")
    error = raises(openai.BadRequestError, lambda: create(model=MODEL, messages=ask("hi"), temperature=3))
    assert (error.param, error.type) == ("temperature", "invalid_request_error")
    error = raises(openai.BadRequestError, lambda: create(model=MODEL, messages=ask("fox " * 9000)))
    assert error.code == "context_length_exceeded"
    raises(openai.BadRequestError, lambda: create(model=MODEL, messages=ask("hi"), extra_body={"mood": 1}))
    long = raises(
        openai.BadRequestError, lambda: create(model=MODEL, messages=ask("fox " * 9000), stream=True)
    )
    assert long.code == "context_length_exceeded"


@check
def models_are_listed():
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


@check
def texts_are_continued():
    fields = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 8, "seed": 3}
    whole = client.completions.create(**fields, n=2)
    assert len(whole.choices) == 2
    text = "".join(chunk.choices[0].text for chunk in client.completions.create(**fields, stream=True))
    assert text == whole.choices[0].text
    echoed = client.completions.create(**fields, echo=True, logprobs=2).choices[0]
    assert echoed.text.startswith("Once upon a time")
    assert echoed.logprobs.token_logprobs[0] is None
    assert all(value <= 0 for value in echoed.logprobs.token_logprobs[1:])
    assert len(echoed.logprobs.tokens) == len(echoed.logprobs.text_offset)


@check
def many_are_answered_at_once_and_a_stream_can_be_left():
    async def main():
        async with openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0) as several:
            stream = await several.chat.completions.create(
                model=MODEL, messages=ask("Tell me a story."), stream=True, extra_body={"ignore_eos": True}
            )
            async for _ in stream:
                break
            await stream.close()
            calls = [
                several.chat.completions.create(model=MODEL, messages=ask(f"{n} + {n}"), temperature=0)
                for n in range(10, 18)
            ]
            return [answer.choices[0].message.content for answer in await asyncio.gather(*calls)]

    together = asyncio.run(main())
    alone = create(model=MODEL, messages=ask("12 + 12"), temperature=0).choices[0].message.content
    assert together[2] == alone


run()
