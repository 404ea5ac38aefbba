"""Arguments of calls: the JSON value a schema makes of bare text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.text.dialects.argument_types import ArgumentTypes
from qanat.text.dialects.coercion import argument_json


def value(text: str, schema: Any, **root: Any) -> Any:
    """What comes of `text` for a parameter with this schema."""
    tool = {"function": {"name": "f", "parameters": {"properties": {"x": schema}, **root}}}
    return json.loads(argument_json(text, ArgumentTypes([tool]).of("f", "x")))


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("integer", "5", 5),
        ("integer", " -12\n", -12),
        ("integer", "5.0", 5),
        ("integer", "1e3", 1000),
        ("integer", "5.5", "5.5"),
        ("integer", "five", "five"),
        ("integer", "", ""),
        ("integer", "0x10", "0x10"),
        ("integer", "1_000", "1_000"),
        ("integer", "٣", "٣"),
        ("integer", "12345678901234567890123", 12345678901234567890123),
        ("integer", "9" * 5000, "9" * 5000),
        ("integer", "1e999999", "1e999999"),
        ("integer", "true", "true"),
        ("integer", "null", "null"),
        ("number", "5", 5),
        ("number", "-1.50", -1.5),
        ("number", "1e-3", 0.001),
        ("number", "1e999", "1e999"),
        ("number", "NaN", "NaN"),
        ("number", "Infinity", "Infinity"),
        ("number", ".5", ".5"),
        ("boolean", "true", True),
        ("boolean", "True", True),
        ("boolean", "false", False),
        ("boolean", "False", False),
        ("boolean", "1", "1"),
        ("boolean", "yes", "yes"),
        ("array", '[1, "é", null]', [1, "é", None]),
        ("array", '{"a": 1}', '{"a": 1}'),
        ("array", "[1, 2", "[1, 2"),
        ("array", "['a']", "['a']"),
        ("array", "[NaN]", "[NaN]"),
        ("array", "[1e999]", "[1e999]"),
        ("array", "[" * 100_000, "[" * 100_000),
        ("object", '\n{"a": {"b": [1.5]}}\n', {"a": {"b": [1.5]}}),
        ("object", "[]", "[]"),
        ("object", "5", "5"),
        ("string", "5", "5"),
        ("string", " true ", " true "),
        ("string", "null", "null"),
        ("string", '"quoted"', '"quoted"'),
        ("null", "null", None),
        ("null", "None", None),
        ("null", "nothing", "nothing"),
    ],
)
def test_a_value_is_read_by_its_type_or_stays_a_string(kind: str, text: str, expected: Any) -> None:
    found = value(text, {"type": kind})
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "null"]}, "5", "5"),
        ({"type": "integer", "nullable": True}, "null", None),
        ({"type": ["integer", "string"]}, "5", 5),
        ({"type": ["integer", "string"]}, "05", "05"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "None", None),
        ({"anyOf": [{"type": "integer"}, {"type": "array"}]}, "[5]", [5]),
        ({"anyOf": [{"type": "integer"}, {}]}, '{"a": 1}', {"a": 1}),
        ({"oneOf": [{"type": "boolean"}, {"type": "string"}]}, "True", True),
        ({"allOf": [{"type": ["string", "integer"]}, {"type": "string"}, {"title": "x"}]}, "5", "5"),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": [1, 2]}, "1", 1),
        ({"enum": ["a", None]}, "null", None),
        ({"const": "5"}, "5", "5"),
        ({"$ref": "#/$defs/Count"}, "5", 5),
        ({"$ref": "#/$defs/Name"}, "5", "5"),
        ({"anyOf": [{"$ref": "#/$defs/Name"}, {"type": "null"}]}, "null", None),
        ({"$ref": "#/$defs/Missing"}, "5", 5),
        ({"$ref": "https://example.org/x"}, "5", 5),
        ({"$ref": "#/$defs/Loop"}, "5", 5),
    ],
)
def test_unions_enumerations_and_references_are_followed(schema: Any, text: str, expected: Any) -> None:
    definitions = {
        "Count": {"type": "integer"},
        "Name": {"type": "string"},
        "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"$ref": "#/$defs/Loop"}]},
    }
    assert value(text, schema, **{"$defs": definitions}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5", 5), ("null", None), ('{"a": 1}', {"a": 1}), ("True", "True"), ("hello", "hello"), (" x ", " x ")],
)
def test_without_a_type_json_is_json_and_the_rest_a_string(text: str, expected: Any) -> None:
    for schema in ({}, {"description": "d"}, True, None, {"type": "date"}, {"type": 5}, {"type": []}, "junk"):
        assert value(text, schema) == expected


def test_additional_properties_give_the_type_of_unknown_names() -> None:
    tool = {"name": "f", "parameters": {"properties": {}, "additionalProperties": {"type": "string"}}}
    types = ArgumentTypes([tool])
    assert types.of("f", "anything") == {"string"}
    assert types.of("g", "anything") is None


@pytest.mark.parametrize(
    "tool",
    [
        *(None, 5, "f", {}, {"function": None}, {"function": {"name": 5}}),
        *({"name": "f", "parameters": odd} for odd in (5, {"properties": [1]}, {"properties": {"x": [1]}})),
    ],
)
def test_odd_tools_mean_anything(tool: Any) -> None:
    assert ArgumentTypes([tool]).of("f", "x") is None


def test_schemas_that_refer_to_each_other_cost_little() -> None:
    definitions = {f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 20} for n in range(50)} | {
        "D50": {"type": "integer"}
    }
    assert value("5", {"$ref": "#/$defs/D0"}, **{"$defs": definitions}) == 5


def test_half_of_a_surrogate_pair_can_be_sent_as_utf8() -> None:
    for text, kind in (("\ud83d", "string"), ('["\\ud83d"]', "array")):
        argument_json(text, frozenset({kind})).encode()


types_allowed = st.none() | st.frozensets(
    st.sampled_from(["null", "boolean", "integer", "number", "array", "object", "string"])
)
finite = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | finite | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.text(), types_allowed)
def test_any_text_becomes_json(text: str, types: frozenset[str] | None) -> None:
    found = json.loads(argument_json(text, types))
    assert found == text or types is None or types - {"string"}


@given(json_values)
def test_json_comes_back_as_it_was(original: Any) -> None:
    if not isinstance(original, str):
        assert json.loads(argument_json(json.dumps(original), None)) == original
    if isinstance(original, list):
        assert json.loads(argument_json(json.dumps(original), frozenset({"array"}))) == original
