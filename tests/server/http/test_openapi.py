"""The OpenAPI document says what the server does: its paths, the fields that it reads, and its answers."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from qanat.errors import RequestError
from qanat.server.answering import check_model
from qanat.server.chat_request import read_chat_request
from qanat.server.completion_request import read_completion_request
from qanat.server.fields import Fields
from qanat.server.http.app import create_routes
from qanat.server.http.openapi import openapi_document
from qanat.server.http.questions import _detokenize, _tokenize
from qanat.server.http.service import Service
from qanat.server.http.settings import ServerSettings
from tests.server.bodies import CHAT_FIELDS, COMPLETION_FIELDS, TOOL, VALUES, ask, places, with_value
from tests.server.http.fakes import FakeEngine
from tests.server.http.serving import Program, served

DOCUMENT = openapi_document(ServerSettings(names=("pocket", "tiny")))
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"

NAMES = ["pocket", "tiny"]


def read_chat(value: Any) -> None:
    check_model(read_chat_request(value).model, NAMES)


def read_completion(value: Any) -> None:
    check_model(read_completion_request(value).model, NAMES)


FORMS: list[dict[str, Any]] = [
    {"type": "json_object"},
    {"type": "json_schema", "json_schema": {"name": "x", "description": "x", "strict": True, "schema": {}}},
    {"type": "regex", "regex": "a+"},
    {"type": "grammar", "grammar": "start: /a/"},
]
FORCED = {"type": "function", "function": {"name": "get_weather"}}
BODIES: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "ChatRequest": (
        read_chat,
        [
            {**CHAT_FIELDS, "functions": [], "function_call": None},
            *({"messages": ask(), "response_format": form} for form in FORMS),
            {"messages": ask(), "tools": [TOOL], "tool_choice": FORCED},
        ],
    ),
    "CompletionRequest": (
        read_completion,
        [COMPLETION_FIELDS, *({"prompt": "x", "response_format": form} for form in FORMS)],
    ),
    "TokenizeRequest": (_tokenize, [{"content": "x", "parse_special": True}]),
    "DetokenizeRequest": (_detokenize, [{"tokens": [1, 2]}]),
}
"""Of each schema of a body: its reader, and bodies that have every field between them."""
TOGETHER = re.compile(
    "differs from|is set, but|answers no call|answers a call|the JSON text of an object"
    "|levels deep|another tool is called|is above max_tokens|names the token|`best_of`|cannot be streamed"
    "|replies; at most|but there are no `tools`|is none of the `tools`|contradict each other"
    r"|`response_format\.(json_schema\.schema|regex|grammar)`: "
)
"""What no schema can say: words of refusals of what fits the schema."""


def at(value: Any, place: Iterable[Any]) -> Any:
    """What lies at a place of a JSON value."""
    for key in place:
        value = value[key]
    return value


def whole(name: str, **more: Any) -> dict[str, Any]:
    """A schema that can be used alone."""
    return {"$ref": f"#/components/schemas/{name}", "components": {"schemas": SCHEMAS}, **more}


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    return schema if reference is None else SCHEMAS[reference.rpartition("/")[2]]


def properties(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property that a schema has, at any depth, with its path."""
    schema = resolved(schema)
    for option in schema.get("anyOf", ()):
        yield from properties(option, path)
    if "items" in schema:
        yield from properties(schema["items"], f"{path}[]")
    for name, inner in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, inner
        yield from properties(inner, here)


def test_the_document_has_every_path_of_the_server() -> None:
    routes = create_routes(Service(FakeEngine(), ServerSettings()))
    served_ = {
        (r.path.replace(":path", ""), m.lower()) for r in routes for m in (r.methods or set()) - {"HEAD"}
    }
    documented = {(path, method) for path, item in DOCUMENT["paths"].items() for method in item}
    assert documented == served_


def test_every_schema_is_one_and_every_reference_leads_somewhere() -> None:
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)
    for place in places(DOCUMENT):
        if place and place[-1] == "$ref":
            assert at(DOCUMENT, at(DOCUMENT, place).removeprefix("#/").split("/"))


@pytest.mark.parametrize("name", BODIES)
def test_the_fields_that_are_read_are_those_of_the_schema(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[str] = set()

    def noted(method: Any) -> Any:
        def noting(self: Fields, field: str, *rest: Any) -> Any:
            taken.add(re.sub(r"\[\d+\]", "[]", self.of(field)))
            return method(self, field, *rest)

        return noting

    monkeypatch.setattr(Fields, "take", noted(Fields.take))
    monkeypatch.setattr(Fields, "refuse", noted(Fields.refuse))
    read, bodies = BODIES[name]
    for body in bodies:
        read(body)
    assert {path for path, _ in properties(SCHEMAS[name])} == taken


@pytest.mark.parametrize("name", BODIES)
def test_objects_are_closed_as_unknown_fields_are_refused(name: str) -> None:
    read, bodies = BODIES[name]
    validator = Draft202012Validator(whole(name))
    for body, place in spots(bodies):
        if isinstance(at(body, place), dict):
            wrong = with_value(body, (*place, "no such field"), 1)
            if {"parameters", "metadata", "schema"} & set(place):
                assert validator.is_valid(wrong)
                read(wrong)
            else:
                assert not validator.is_valid(wrong), place
                with pytest.raises(RequestError):
                    read(wrong)


def spots(bodies: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], tuple[Any, ...]]]:
    """Every place of every body."""
    return ((body, place) for body in bodies for place in places(body))


def samples(schema: dict[str, Any], present: Any = None) -> Iterator[Any]:
    """Values at the bounds of a schema, and just beyond. present: one that is good."""
    schema = resolved(schema)
    for option in schema.get("anyOf", ()):
        yield from samples(option, present)
    yield from schema.get("enum", ())
    yield from [None, True, False, "", "x", [], {}, 0.5, "auto"]
    for bound in ("minimum", "maximum"):
        if bound in schema:
            yield from (schema[bound] - 1, schema[bound], schema[bound] + 1, float(schema[bound]))
    if "items" in schema:
        yield from ([value] for value in samples(schema["items"]))
    if "maxItems" in schema and schema["maxItems"] < 10_000:
        good = present if isinstance(present, list) else samples(schema["items"])
        item = [value for value in good if fits(value, schema["items"])][:1]
        low, high = schema.get("minItems", 0), schema["maxItems"]
        yield from (item * size for size in (low - 1, low, high, high + 1) if size >= 0 and item)
    if "maxProperties" in schema:
        yield from ({str(i): 1 for i in range(schema["maxProperties"] + more)} for more in (0, 1))
    if schema.get("maxLength", 10**9) < 10**6:
        yield from ("x" * (schema["maxLength"] + more) for more in (0, 1))
    if "pattern" in schema:
        yield from ("a b", "<", "f" * 256, "f" * 257, "\u00e4")
    if "properties" in schema and schema.get("required"):
        yield {}


def fits(value: Any, schema: dict[str, Any]) -> bool:
    return bool(Draft202012Validator({**schema, "components": {"schemas": SCHEMAS}}).is_valid(value))


@pytest.mark.parametrize("name", BODIES)
def test_the_bounds_of_the_schema_are_those_of_the_readers(name: str) -> None:
    read, bodies = BODIES[name]
    validator = Draft202012Validator(whole(name))
    assert all(validator.is_valid(body) for body in bodies)
    tried = 0
    for path, schema in properties(SCHEMAS[name]):
        for body, place in spots(bodies):
            if re.sub(r"\.?\[\]", "[]", path) == spelled(place):
                for value in samples(schema, at(body, place)):
                    assert_agree(read, validator, with_value(body, place, value))
                    tried += 1
    assert tried > 10


def spelled(place: tuple[Any, ...]) -> str:
    text = ""
    for key in place:
        text += "[]" if isinstance(key, int) else f".{key}" if text else key
    return text


def assert_agree(read: Any, validator: Any, body: Any) -> None:
    """Reader and schema take it, or both refuse it; but for what no schema can say."""
    refusal: str | None = None
    try:
        read(body)
    except RequestError as error:
        refusal = str(error)
    if refusal is None:
        errors = [error.message[:300] for error in validator.iter_errors(body)]
        assert not errors, errors
    elif not TOGETHER.search(refusal):
        assert not validator.is_valid(body), (refusal, str(body)[:500])


@settings(max_examples=300, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("name", BODIES)
def test_reader_and_schema_agree_on_any_value_in_any_place(name: str, data: st.DataObject) -> None:
    read, bodies = BODIES[name]
    body = data.draw(st.sampled_from(bodies))
    wrong = with_value(body, data.draw(st.sampled_from(places(body))), data.draw(VALUES))
    try:
        json.dumps(wrong, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:  # what no body can hold
        assume(False)
    assert_agree(read, Draft202012Validator(whole(name)), wrong)


def closed(schema: Any) -> Any:
    """The schema, in which objects have no more than it says."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(value) for key, value in schema.items()}
    return (
        {**schema, "additionalProperties": False} if "properties" in schema and "type" in schema else schema
    )


def assert_is(name: str, value: Any) -> None:
    validator = Draft202012Validator(
        {**whole(name), "components": {"schemas": closed(copy.deepcopy(SCHEMAS))}}
    )
    errors = [f"{list(error.absolute_path)}: {error.message}"[:300] for error in validator.iter_errors(value)]
    assert not errors, (name, errors)


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": ask("Who are you?"), "max_tokens": 20},
        {"messages": ask("Who are you?"), "max_tokens": 20, "n": 2, "logprobs": True, "top_logprobs": 3},
        {"messages": ask("What is the weather in Paris?"), "tools": [TOOL], "max_tokens": 80},
        {"messages": ask("What is 2 + 3?"), "chat_template_kwargs": {"enable_thinking": True}},
    ],
    ids=range(4),
)
def test_answers_to_chats_fit_their_schemas(server: Program, fields: dict[str, Any]) -> None:
    answer = server.post(CHAT, temperature=0, **fields)
    assert_is("ChatCompletion", answer)
    if "tools" in fields:
        assert answer["choices"][0]["message"]["tool_calls"]
    for usage in (False, True):
        for item in server.stream(CHAT, temperature=0, stream_options={"include_usage": usage}, **fields):
            assert_is("ChatCompletionChunk", item)


def test_how_far_a_prompt_is_read_fits_its_schema(server: Program) -> None:
    long = ask("A word and another. " * 300)
    told = server.stream(CHAT, messages=long, return_progress=True, max_tokens=1)
    assert sum("prompt_progress" in item for item in told) > 2
    for item in told:
        assert_is("ChatCompletionChunk", item)


@pytest.mark.parametrize("fields", [{}, {"echo": True}, {"logprobs": 2, "n": 2}], ids=range(3))
def test_answers_to_completions_fit_their_schemas(server: Program, fields: dict[str, Any]) -> None:
    fields = {"prompt": ["Once", "Twice"], "max_tokens": 5, **fields}
    assert_is("Completion", server.post(TEXT, **fields))
    for item in server.stream(TEXT, stream_options={"include_usage": True}, **fields):
        assert_is("CompletionChunk", item)


def test_other_answers_fit_their_schemas(server: Program) -> None:
    for path, name in (
        ("/v1/models", "ModelList"),
        ("/v1/models/tiny/pocket", "Model"),
        ("/health", "Health"),
    ):
        status, answer, _ = server.ask("GET", path)
        assert status == 200
        assert_is(name, answer)
    assert_is("Tokens", server.post("/tokenize", content="hello"))
    assert_is("Text", server.post("/detokenize", tokens=[1]))
    assert_is("Stages", server.post("/explain", messages=ask()))
    assert_is("Prompt", server.post("/apply-template", messages=ask()))
    for method, path, body in (("POST", CHAT, {}), ("GET", "/nowhere", None), ("GET", CHAT, None)):
        assert_is("Error", server.ask(method, path, body)[1])
    with pytest.raises(AssertionError):
        assert_is("Health", {"status": "ready", "more": 1})


def test_the_document_is_served_and_says_whether_keys_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("first\n")
    with served(FakeEngine()) as client:
        status, document, _ = client.ask("GET", "/openapi.json")
        assert (status, "security" in document) == (200, False)
        assert document == openapi_document(ServerSettings())
    with served(FakeEngine(), keys=tmp_path / "keys") as client:
        assert client.ask("GET", "/openapi.json")[0] == 401
        document = client.ask("GET", "/openapi.json", headers={"X-Api-Key": "first"})[1]
        assert document["security"] == [{"bearer": []}, {"header": []}]
        assert document["paths"]["/health"]["get"]["security"] == []
