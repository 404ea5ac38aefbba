"""langchain-openai: a chat model of LangChain's on this server."""

from __future__ import annotations

import asyncio

import openai
from checks import KEY, MODEL, URL, ask, check, raises, run
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel


def chat(**fields):
    return ChatOpenAI(base_url=URL, api_key=KEY, model=MODEL, max_retries=0, **{"temperature": 0, **fields})


@tool
def get_weather(city: str) -> str:
    """Look up the weather."""
    return "sunny, 21 degrees"


class Person(BaseModel):
    """A person."""

    age: int
    adult: bool


@check
def a_chat_is_answered_and_remembered():
    model = chat()
    first = model.invoke([HumanMessage("My name is Winston.")])
    answer = model.invoke([HumanMessage("My name is Winston."), first, HumanMessage("What is my name?")])
    assert "Winston" in answer.content
    assert answer.usage_metadata["total_tokens"] > 0
    assert answer.response_metadata["finish_reason"] == "stop"


@check
def a_stream_joins_to_the_whole():
    model = chat(seed=5, max_tokens=40, stream_usage=True)
    question = "Tell me a short story about a dragon."
    whole = model.invoke(question)
    joined = None
    for chunk in model.stream(question):
        joined = chunk if joined is None else joined + chunk
    assert joined.content == whole.content
    assert joined.usage_metadata["total_tokens"] == whole.usage_metadata["total_tokens"]


@check
def a_tool_is_called_and_its_answer_read():
    model = chat().bind_tools([get_weather])
    question = HumanMessage("What is the weather in Paris?")
    called = model.invoke([question])
    [call] = called.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Paris"})
    streamed = None
    for chunk in model.stream([question]):
        streamed = chunk if streamed is None else streamed + chunk
    assert streamed.tool_calls[0]["args"] == call["args"]
    result = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
    answer = model.invoke([question, called, result])
    assert isinstance(answer, AIMessage)
    assert "sunny" in answer.content


@check
def an_answer_is_read_into_a_class():
    for method in ("json_schema", "function_calling"):
        found = chat(max_tokens=200).with_structured_output(Person, method=method).invoke("Who are you?")
        assert isinstance(found, Person), method


@check
def log_probabilities_and_stop_texts_arrive():
    answer = chat(logprobs=True, top_logprobs=2, max_tokens=5).invoke("Who are you?")
    assert len(answer.response_metadata["logprobs"]["content"]) == 5
    text = chat().invoke("Say falcon three times.").content
    stop = text[len(text) // 2 :][:3]
    assert chat().invoke("Say falcon three times.", stop=[stop]).content == text[: text.index(stop)]


@check
def batches_and_asyncio_work():
    answers = chat(max_tokens=8).batch([f"{n} + {n}" for n in range(10, 15)])
    assert len(answers) == 5
    answer = asyncio.run(chat().ainvoke("12 + 12"))
    assert answer.content == chat().invoke("12 + 12").content


@check
def texts_are_continued():
    model = OpenAI(base_url=URL, api_key=KEY, model=MODEL, max_tokens=5, max_retries=0)
    assert model.invoke("Once upon a time")


@check
def errors_have_their_types():
    raises(openai.BadRequestError, lambda: chat(temperature=3).invoke("hi"))
    raises(Exception, lambda: chat().invoke(ask("fox " * 9000)))
    wrong = ChatOpenAI(base_url=URL, api_key="wrong", model=MODEL, max_retries=0)
    raises(openai.AuthenticationError, lambda: wrong.invoke("hi"))


run()
