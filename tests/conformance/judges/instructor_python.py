"""instructor: answers as Pydantic models, in each of its modes that OpenAI's API serves."""

from __future__ import annotations

from typing import Literal

import instructor
import openai
from checks import KEY, MODEL, URL, ask, check, run
from pydantic import BaseModel, Field


class Order(BaseModel):
    """An order of a shop."""

    item: Literal["lamp", "chair"]
    count: int = Field(ge=1, le=99)
    gift: bool


QUESTION = ask("Answer in JSON: item lamp and count 7")


def extract(mode, **fields):
    client = instructor.from_openai(openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0), mode=mode)
    return client.chat.completions.create(
        model=MODEL, messages=QUESTION, response_model=Order, max_tokens=300, max_retries=1, **fields
    )


@check
def a_schema_gives_a_model():
    found = extract(instructor.Mode.JSON_SCHEMA)
    assert isinstance(found, Order)
    assert 1 <= found.count <= 99


@check
def a_call_gives_a_model():
    assert isinstance(extract(instructor.Mode.TOOLS), Order)


@check
def a_strict_call_gives_a_model():
    assert isinstance(extract(instructor.Mode.TOOLS_STRICT), Order)


@check
def a_stream_gives_a_model_that_grows():
    client = instructor.from_openai(
        openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0), mode=instructor.Mode.JSON_SCHEMA
    )
    parts = list(
        client.chat.completions.create_partial(
            model=MODEL, messages=QUESTION, response_model=Order, max_tokens=300
        )
    )
    assert len(parts) > 1
    assert 1 <= parts[-1].count <= 99


run()
