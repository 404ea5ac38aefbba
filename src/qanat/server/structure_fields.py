"""The field that asks for the form of a reply, and the one that bounds its thought."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qanat.engine.structure import Structure
from qanat.errors import RequestError
from qanat.server.fields import FieldError, Fields, any_value, boolean, integer, one_of, text

__all__ = ["read_structure"]

_KINDS = ("text", "json_object", "json_schema", "regex", "grammar")
MAX_BUDGET = 2**31 - 1


def read_structure(body: Fields) -> dict[str, Any]:
    """`response_format` and `thinking_budget`, as arguments of `SamplingParams`.

    Beside OpenAI's forms there are `{"type": "regex", "regex": ...}` and
    `{"type": "grammar", "grammar": ...}`.
    """
    given = {
        "structure": body.take("response_format", _structure),
        "thinking_budget": body.take("thinking_budget", integer(0, MAX_BUDGET)),
    }
    return {name: value for name, value in given.items() if value is not None}


def _structure(value: Any, path: str) -> Structure | None:
    fields = Fields(value, path)
    kind = fields.require("type", one_of(*_KINDS))
    structure = None
    if kind == "json_object":
        structure = Structure.json_object()
    elif kind == "json_schema":
        structure = fields.require(kind, _json_schema)
    elif kind in ("regex", "grammar"):
        source = fields.require(kind, text)
        make = Structure.regex if kind == "regex" else Structure.grammar
        structure = _made(lambda: make(source), fields.of(kind))
    fields.close()
    return structure


def _json_schema(value: Any, path: str) -> Structure:
    """OpenAI's wrapping of a schema; `strict` changes nothing, for a schema is always kept."""
    fields = Fields(value, path)
    fields.take("name", text)
    fields.take("description", text)
    fields.take("strict", boolean)
    schema = fields.require("schema", _object)
    fields.close()
    return _made(lambda: Structure.json_schema(schema), fields.of("schema"))


def _object(value: Any, path: str) -> dict[str, Any]:
    Fields(value, path)
    return dict(any_value(value, path))


def _made(make: Callable[[], Structure], path: str) -> Structure:
    """What `make` makes; its error names the field."""
    try:
        return make()
    except RequestError as error:
        raise FieldError(f"`{path}`: {error}", path) from None
