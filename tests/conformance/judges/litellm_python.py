"""litellm, as its users call any server of OpenAI's API."""

from __future__ import annotations

import asyncio
import json

import litellm
from checks import KEY, MODEL, PERSON, URL, WEATHER, ask, check, raises, run

litellm.suppress_debug_info = True
WHERE = {"model": f"openai/{MODEL}", "api_base": URL, "api_key": KEY, "num_retries": 0, "max_retries": 0}


def complete(**fields):
    return litellm.completion(**WHERE, **fields)


@check
def a_chat_is_answered_and_remembered():
    messages = ask("My name is Winston.")
    answer = complete(messages=messages, temperature=0)
    messages += [answer.choices[0].message.model_dump(exclude_none=True), *ask("What is my name?")]
    answer = complete(messages=messages, temperature=0)
    assert "Winston" in answer.choices[0].message.content
    assert answer.usage.total_tokens > answer.usage.completion_tokens > 0


@check
def a_stream_joins_to_the_whole():
    fields = {"messages": ask("Tell me a short story about a dragon."), "seed": 5, "max_tokens": 40}
    whole = complete(**fields)
    chunks = list(complete(**fields, stream=True, stream_options={"include_usage": True}))
    rebuilt = litellm.stream_chunk_builder(chunks)
    assert rebuilt.choices[0].message.content == whole.choices[0].message.content
    assert rebuilt.choices[0].finish_reason == whole.choices[0].finish_reason
    assert rebuilt.usage.total_tokens == whole.usage.total_tokens


@check
def tools_are_called_whole_and_streamed():
    messages = ask("What is the weather in Paris?")
    fields = {"tools": [WEATHER], "temperature": 0}
    answer = complete(messages=messages, **fields)
    [call] = answer.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    streamed = litellm.stream_chunk_builder(list(complete(messages=messages, **fields, stream=True)))
    [other] = streamed.choices[0].message.tool_calls
    assert other.function.arguments == call.function.arguments
    messages += [
        answer.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"},
    ]
    assert "sunny" in complete(messages=messages, **fields).choices[0].message.content


@check
def thoughts_come_apart():
    thinking = {"chat_template_kwargs": {"enable_thinking": True}}
    answer = complete(messages=ask("What is 47 + 38?"), temperature=0, extra_body=thinking)
    assert answer.choices[0].message.reasoning_content
    assert answer.choices[0].message.content


@check
def an_answer_keeps_to_a_schema():
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    answer = complete(messages=ask("Who are you?"), response_format=form, max_tokens=200)
    assert set(json.loads(answer.choices[0].message.content)) == {"name", "age"}


@check
def log_probabilities_and_choices_arrive():
    answer = complete(messages=ask("Who are you?"), n=2, seed=1, logprobs=True, top_logprobs=2, max_tokens=5)
    assert len(answer.choices) == 2
    assert len(answer.choices[0].logprobs.content[0].top_logprobs) == 2


@check
def texts_are_continued():
    where = {**WHERE, "model": f"text-completion-openai/{MODEL}"}
    answer = litellm.text_completion(**where, prompt="Once upon a time", max_tokens=5)
    assert answer.choices[0].text
    assert answer.usage.completion_tokens == 5


@check
def it_works_with_asyncio():
    async def main():
        calls = [litellm.acompletion(**WHERE, messages=ask(f"{n} + {n}"), max_tokens=5) for n in range(4)]
        return await asyncio.gather(*calls)

    assert len(asyncio.run(main())) == 4


@check
def errors_have_their_types():
    raises(litellm.BadRequestError, lambda: complete(messages=ask("hi"), temperature=3))
    raises(litellm.ContextWindowExceededError, lambda: complete(messages=ask("fox " * 9000)))
    stranger = {**WHERE, "api_key": "wrong"}
    raises(litellm.AuthenticationError, lambda: litellm.completion(**stranger, messages=ask("hi")))
    lost = {**WHERE, "model": "openai/gpt-4o"}
    raises(litellm.NotFoundError, lambda: litellm.completion(**lost, messages=ask("hi")))


run()
