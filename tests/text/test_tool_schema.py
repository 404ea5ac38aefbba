"""Functions as tools: the schema that transformers makes of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from assets import GOLDEN
from qanat.errors import TemplateError
from qanat.text.tool_schema import function_schema
from tests.text.tool_functions import FUNCTIONS


def recorded() -> dict[str, Any]:
    golden = json.loads(gzip.decompress((GOLDEN / "template.json.gz").read_bytes()))
    schemas: dict[str, Any] = golden["schemas"]
    return schemas


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_schema_equals_the_recorded_one_to_the_order_of_keys(function: Callable[..., Any]) -> None:
    expected = recorded()[function.__name__]
    if isinstance(expected, str):
        with pytest.raises(TemplateError):
            function_schema(function)
    else:
        assert json.dumps(function_schema(function)) == json.dumps(expected)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_docstring", "no_docstring because it has no docstring"),
        ("no_hint", "x is missing a type hint in function no_hint"),
        ("no_description", "no description for the argument 'y'"),
        ("custom_hint", "Argument x of function custom_hint"),
        ("bad_choices", "choices of argument 'x' of function bad_choices"),
        ("unknown_hint", "unknown_hint cannot be read: name 'Missing' is not defined"),
    ],
)
def test_an_unsound_function_is_named_with_what_it_lacks(name: str, words: str) -> None:
    function = next(one for one in FUNCTIONS if one.__name__ == name)
    with pytest.raises(TemplateError, match=words):
        function_schema(function)


def test_schemas_do_not_share_what_a_caller_may_change() -> None:
    first = function_schema(FUNCTIONS[0])
    first["function"]["parameters"]["properties"]["x"]["type"] = "changed"
    assert function_schema(FUNCTIONS[0])["function"]["parameters"]["properties"]["x"]["type"] == "integer"
