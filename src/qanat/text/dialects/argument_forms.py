"""The ways in which a call may write an argument that its schema allows.

An argument stands between tags: a string as it is, everything else as JSON. What stands there is read back by
its type (`coercion`), so a way counts only if the value comes out again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from qanat.errors import GrammarError
from qanat.text.dialects.coercion import argument_json
from qanat.text.dialects.embedded_json import VALUE_END, check_strict, guarded, target

__all__ = ["ArgumentForms", "Form", "Json", "Literal", "Pattern", "Text"]

_SILENT = frozenset({"title", "description", "default", "examples", "deprecated", "$comment", "nullable"})
"""Keywords that allow and forbid nothing (`nullable` is looked at apart)."""
_NUMBERS = {"integer": r"-?(0|[1-9][0-9]{0,14})", "number": r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,20})?"}
_MOST_DEPTH = 32
_MOST_SCHEMAS = 1000
"""That the alternatives of one argument lead to: references in references are as many as their product."""


@dataclass(frozen=True)
class Text:
    """Any text of so many characters, as it is."""

    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Literal:
    """This text."""

    text: str


@dataclass(frozen=True)
class Pattern:
    """Text that a regular expression matches as a whole."""

    source: str


@dataclass(frozen=True)
class Json:
    """JSON of a schema."""

    schema: Mapping[str, Any]


Form = Text | Literal | Pattern | Json


class ArgumentForms:
    """How arguments of one function may be written.

    Args:
        root: the schema of all its arguments, in which references lead somewhere.
        strict: refuse what could be written otherwise than the schema says.
    """

    def __init__(self, root: Mapping[str, Any], *, strict: bool) -> None:
        self._root = root
        self._strict = strict
        self._looked_at = 0

    def of(self, schema: Any, types: frozenset[str] | None) -> list[Form]:
        """The forms of an argument, each once.

        Args:
            schema: of the argument.
            types: those by which it is read.

        Raises:
            GrammarError: a condition cannot be kept, nothing can be written, or there are too many ways.
        """
        if VALUE_END in json.dumps(schema, ensure_ascii=False):
            raise GrammarError(f"it holds {VALUE_END!r}, at which whoever reads the call ends it")
        self._looked_at = 0
        unique: dict[Any, Form] = {}
        for form in self._forms(schema, types, 0):
            unique.setdefault(json.dumps(form.schema) if isinstance(form, Json) else form, form)
        forms = list(unique.values())
        if not forms:
            raise GrammarError("no value of it can be written in a call")
        bounded = any(isinstance(form, Text) and form != Text() for form in forms)
        if bounded and any(isinstance(form, Json | Pattern) for form in forms):
            raise GrammarError("beside a string of some length it may be what is read as something else")
        if Text() not in forms:
            return forms
        if self._strict and any(isinstance(form, Json) for form in forms):
            raise GrammarError(
                "beside a string it may be something that has conditions, which a string could break"
            )
        return [Text()]  # which the others are among

    def _forms(self, schema: Any, types: frozenset[str] | None, depth: int) -> Iterator[Form]:
        self._looked_at += 1
        if self._looked_at > _MOST_SCHEMAS:
            raise GrammarError(f"its alternatives and references are more than {_MOST_SCHEMAS}")
        if schema is False or depth > _MOST_DEPTH:
            return
        if not isinstance(schema, Mapping):
            yield Text()
            return
        rest = {key: value for key, value in schema.items() if key not in _SILENT}
        if not rest:
            yield Text()
            return
        if schema.get("nullable") is True:
            yield Literal("null")
        members = self._members(rest, types)
        if members is not None:
            for member in members:
                yield from self._forms(member, types, depth + 1)
        elif "enum" in rest or "const" in rest:
            yield from _literals(rest, types)
        else:
            yield from self._of_type(rest.get("type"), rest)

    def _members(self, rest: Mapping[str, Any], types: frozenset[str] | None) -> list[Any] | None:
        """The schemas any of which may hold instead; None if it stands for itself."""
        if set(rest) == {"$ref"}:
            return [target(rest["$ref"], self._root)]
        [key, *others] = rest
        alone = not others and isinstance(rest[key], list)
        if alone and (key in ("anyOf", "oneOf") or (key == "allOf" and len(rest[key]) == 1)):
            return list(rest[key])
        if "enum" in rest or "const" in rest:
            return None
        combined = not rest.keys().isdisjoint(("$ref", "anyOf", "oneOf", "allOf"))
        if combined and (types is None or "string" in types):
            raise GrammarError(
                "of a string, `$ref`, `anyOf`, `oneOf` and `allOf` may have nothing beside them"
            )
        kinds = rest.get("type")
        return [{**rest, "type": kind} for kind in kinds] if isinstance(kinds, list) else None

    def _of_type(self, kind: Any, rest: Mapping[str, Any]) -> list[Form]:
        """Of a schema with one type, or with none."""
        if kind == "string":
            return [_text(rest, self._strict)]
        if kind == "null":
            return [Literal("null")]
        if kind == "boolean":  # as Python writes them, too: templates show them so
            return [Literal(text) for text in ("true", "false", "True", "False")]
        if kind in _NUMBERS and set(rest) == {"type"}:
            return [Pattern(_NUMBERS[kind])]
        if self._strict:
            check_strict(rest, self._root)
        return [Json({**guarded(rest), **self._definitions})]

    @cached_property
    def _definitions(self) -> dict[str, Any]:
        """What references inside of JSON lead to."""
        return {name: guarded(self._root[name]) for name in ("$defs", "definitions") if name in self._root}


def _text(rest: Mapping[str, Any], strict: bool) -> Form:
    least, most = rest.get("minLength", 0), rest.get("maxLength")
    bounded = all(isinstance(n, int) and not isinstance(n, bool) for n in (least, most or 0))
    unkept = [key for key in rest if key not in ("type", "minLength", "maxLength")]
    wrong = [key for key in unkept if strict or key not in ("pattern", "format")]
    if wrong or (strict and not bounded):
        raise GrammarError(f"a string cannot be held to `{(wrong or ['minLength'])[0]}`")
    return Text(least, most) if bounded else Text()


def _literals(rest: Mapping[str, Any], types: frozenset[str] | None) -> list[Form]:
    """The values of an enumeration that come out again as they were."""
    if not rest.keys() <= {"enum", "const", "type"}:
        raise GrammarError("`enum` and `const` may have no other condition beside them than a type")
    values = [rest["const"]] if "const" in rest else rest["enum"]
    if not isinstance(values, list):
        raise GrammarError("`enum` must be a list")
    if "const" in rest and "enum" in rest:
        values = [value for value in values if value in rest["enum"]]
    kinds = rest.get("type")
    allowed = None if kinds is None else kinds if isinstance(kinds, list) else [kinds]
    found: list[Form] = []
    for value in values:
        if allowed is not None and not any(_is(value, kind) for kind in allowed):
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        read = json.loads(argument_json(text, types))
        if VALUE_END not in text and json.dumps(read) == json.dumps(value):
            found.append(Literal(text))
    return found


def _is(value: Any, kind: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {
        "string": isinstance(value, str),
        "null": value is None,
        "boolean": isinstance(value, bool),
        "number": number,
        "integer": number and float(value).is_integer(),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }.get(kind, False)
