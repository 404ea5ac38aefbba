"""The form that a reply must have: JSON, a regular expression, or a grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from qanat.errors import RequestError
from qanat.text.dialects.schema_bounds import check_bounds

__all__ = ["MAX_SOURCE", "Structure"]

StructureKind = Literal["json_object", "json_schema", "regex", "grammar"]

MAX_SOURCE = 1 << 16
"""Characters of a schema or grammar."""
MAX_LINE = 1 << 13
"""Characters of an expression, and of a line of a grammar: long text without any choice is slow to follow."""
MAX_DEPTH = 64
"""Levels of a schema."""


_MULTIPLE = re.compile("multiple_?of", re.IGNORECASE)


@dataclass(frozen=True)
class Structure:
    """What `SamplingParams.structure` asks of a reply: only tokens that lead there are chosen.

    It begins after the thought, if there is one. A reply that is cut by `max_tokens` is a beginning of the
    form. Made by one of the class methods; whether the form itself makes sense shows when it is used.

    Raises:
        RequestError: the source is empty, too long, no JSON object, or nested too deeply.
    """

    kind: StructureKind
    source: str = ""
    """A JSON schema as text, the expression, or the grammar; "" for json_object."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(StructureKind):
            raise RequestError(
                f"a structure is one of {', '.join(get_args(StructureKind))}, not {self.kind!r}"
            )
        if not isinstance(self.source, str):
            raise RequestError(f"the source of a structure must be a text, not {type(self.source).__name__}")
        if len(self.source) > MAX_SOURCE:
            raise RequestError(
                f"the {self.name} has {len(self.source)} characters; at most {MAX_SOURCE} are read"
            )
        if any("\ud800" <= character <= "\udfff" for character in self.source):
            raise RequestError(f"the {self.name} holds half a character (a lone surrogate)")
        if (self.kind == "json_object") == bool(self.source):
            raise RequestError(f"the {self.name} must {'have no source' if self.source else 'not be empty'}")
        if self.kind == "json_schema":
            _check_schema(self.source)
        elif self.kind != "json_object":
            _check_text(self.source, self.name)
        if self.kind == "regex" and (len(self.source) - len(self.source.rstrip("\\"))) % 2:
            raise RequestError("the regular expression ends in a backslash that escapes nothing")

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return {
            "json_object": "JSON object",
            "json_schema": "JSON schema",
            "regex": "regular expression",
        }.get(self.kind, "grammar")

    @classmethod
    def json_object(cls) -> Structure:
        """Any JSON object."""
        return cls("json_object")

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any] | str) -> Structure:
        """A JSON value that a schema describes, given as an object or as its text.

        Properties come in the order of the schema. A keyword that cannot be kept is refused when it is used.
        """
        if isinstance(schema, str):
            return cls("json_schema", schema)
        try:
            return cls("json_schema", json.dumps(schema, ensure_ascii=False, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise RequestError(f"the JSON schema is no JSON: {error}") from None

    @classmethod
    def regex(cls, expression: str) -> Structure:
        """A text that matches as a whole, so anchors are not needed: Rust's syntax, without look-around."""
        return cls("regex", expression)

    @classmethod
    def grammar(cls, source: str) -> Structure:
        """A text of a context-free grammar, in llguidance's variant of Lark; its start is `start`."""
        return cls("grammar", source)


def _check_schema(source: str) -> None:
    try:
        schema = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the JSON schema is no JSON: {error}") from None
    if not isinstance(schema, dict):
        raise RequestError(f"the JSON schema must be an object, not {type(schema).__name__}")
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        level = [inner for item in level for inner in _inside(item)]
    if level:
        raise RequestError(f"the JSON schema is nested more than {MAX_DEPTH} levels deep")
    check_bounds(schema)


def _check_text(source: str, name: str) -> None:
    longest = max(map(len, source.splitlines()))
    if longest > MAX_LINE:
        raise RequestError(f"the {name} has a line of {longest} characters; at most {MAX_LINE} are read")
    # Schemas inside of a grammar are nobody's but the library's to read: no such bomb in any spelling.
    if name == "grammar" and source.count("&") > 2:
        raise RequestError("the grammar may have two `&` at most: their products grow beyond all bounds")
    if name == "grammar" and (_MULTIPLE.search(source) or ("%json" in source and "\\u" in source)):
        raise RequestError("the grammar may have no `multipleOf`, and no \\u beside %json")


def _inside(item: Any) -> list[Any]:
    inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return [value for value in inner if isinstance(value, dict | list)]
