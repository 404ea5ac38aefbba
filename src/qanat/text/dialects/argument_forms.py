"""The ways in which a call may write an argument that its schema allows.

An argument stands between tags: a string as it is, everything else as JSON. What stands there is read back by
its type (`coercion`), so a way counts only if the value comes out again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qanat.errors import GrammarError
from qanat.text.dialects.coercion import argument_json

__all__ = ["VALUE_END", "Form", "Json", "Literal", "Pattern", "Text", "argument_forms"]

VALUE_END = "</parameter>"
_SILENT = frozenset({"title", "description", "default", "examples", "deprecated", "$comment", "nullable"})
"""Keywords that allow and forbid nothing (`nullable` is looked at apart)."""
_NUMBERS = {"integer": r"-?(0|[1-9][0-9]{0,14})", "number": r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,20})?"}
_MOST_DEPTH = 32
_LARGEST = 2**53
_OPEN = frozenset({"pattern", "format", "patternProperties", "propertyNames", "unevaluatedProperties"})
_NO_TAG = r"^([^<]|<[^/])*<?$"
"""Of strings inside of JSON: the reader ends the argument at the first closing tag, wherever it stands."""


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


def argument_forms(
    schema: Any, root: Mapping[str, Any], types: frozenset[str] | None, *, strict: bool
) -> list[Form]:
    """How an argument of this schema may be written.

    Args:
        schema: of the argument.
        root: of all arguments, in which its references lead somewhere.
        types: those by which it is read.
        strict: refuse what could be written otherwise than the schema says.

    Raises:
        GrammarError: a condition cannot be kept, or nothing can be written.
    """
    if VALUE_END in json.dumps(schema, ensure_ascii=False).replace("<\\/", "</"):
        raise GrammarError(f"it holds {VALUE_END!r}, at which whoever reads the call ends it")
    found = _forms(schema, root, types, strict, 0)
    forms = [form for place, form in enumerate(found) if form not in found[:place]]
    if not forms:
        raise GrammarError("no value of it can be written in a call")
    bounded = any(isinstance(form, Text) and form != Text() for form in forms)
    if bounded and any(isinstance(form, Json | Pattern) for form in forms):
        raise GrammarError("beside a string of some length it may be what is read as something else")
    free = next((form for form in forms if form == Text()), None)
    if free is None:
        return forms
    if strict and any(isinstance(form, Json) for form in forms):
        raise GrammarError(
            "beside a string it may be something that has conditions, which a string could break"
        )
    return [free]  # which the others are among


def _forms(
    schema: Any, root: Mapping[str, Any], types: frozenset[str] | None, strict: bool, depth: int
) -> list[Form]:
    if schema is False or depth > _MOST_DEPTH:
        return []
    if not isinstance(schema, Mapping):
        return [Text()]
    rest = {key: value for key, value in schema.items() if key not in _SILENT}
    nullable: list[Form] = [Literal("null")] if schema.get("nullable") is True else []

    def inside(member: Any) -> list[Form]:
        return _forms(member, root, types, strict, depth + 1) + nullable

    if not rest:
        return [Text()]
    if set(rest) == {"$ref"}:
        return inside(_target(rest["$ref"], root))
    if set(rest) == {"allOf"} and isinstance(rest["allOf"], list) and len(rest["allOf"]) == 1:
        return inside(rest["allOf"][0])
    if set(rest) <= {"enum", "const", "type"} and ("enum" in rest or "const" in rest):
        return _literals(rest, types) + nullable
    if "enum" in rest or "const" in rest:
        raise GrammarError("`enum` and `const` may have no other condition beside them than a type")
    for key in ("anyOf", "oneOf"):
        if set(rest) == {key} and isinstance(rest[key], list):
            return [form for member in rest[key] for form in inside(member)]
    if not rest.keys().isdisjoint(("$ref", "anyOf", "oneOf", "allOf")) and (
        types is None or "string" in types
    ):
        raise GrammarError("of a string, `$ref`, `anyOf`, `oneOf` and `allOf` may have nothing beside them")
    kinds = rest.get("type")
    if isinstance(kinds, list):
        return [form for kind in kinds for form in inside({**rest, "type": kind})]
    return _of_type(kinds, rest, root, strict) + nullable


def _of_type(kind: Any, rest: Mapping[str, Any], root: Mapping[str, Any], strict: bool) -> list[Form]:
    """Of a schema with one type, or with none."""
    if kind == "string":
        return [_text(rest, strict)]
    if kind == "null":
        return [Literal("null")]
    if kind == "boolean":  # as Python writes them, too: templates show them so
        return [Literal(text) for text in ("true", "false", "True", "False")]
    if kind in _NUMBERS and set(rest) == {"type"}:
        return [Pattern(_NUMBERS[kind])]
    if strict:
        _check_strict(rest, root)
    shared = {name: _guarded(root[name]) for name in ("$defs", "definitions") if name in root}
    return [Json({**_guarded(rest), **shared})]


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


def _target(reference: Any, root: Mapping[str, Any]) -> Any:
    """What a reference inside of the tool's own schema leads to."""
    _check_reference(reference)
    place: Any = root
    for step in reference.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        place = place.get(key) if isinstance(place, Mapping) else None
    if place is None:
        raise GrammarError(f"the reference {reference!r} leads nowhere")
    return place


def _check_reference(reference: Any) -> None:
    if not isinstance(reference, str) or not reference.startswith(("#/$defs/", "#/definitions/")):
        raise GrammarError(f"a reference must begin with #/$defs/ or #/definitions/, not be {reference!r}")


def _guarded(schema: Any, *, names: bool = False) -> Any:
    """A schema whose strings hold no closing tag, and whose numbers every reader has room for.

    names: whether the keys are names that somebody chose, and no keywords.
    """
    if isinstance(schema, list):
        return [_guarded(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {
        key: value
        if key in ("enum", "const", "required") and not names
        else _guarded(value, names=_named(key, names))
        for key, value in schema.items()
    }
    if names:
        return kept
    if "$ref" in kept:
        _check_reference(kept["$ref"])
    if VALUE_END in json.dumps([kept.get("enum"), kept.get("const")]):
        raise GrammarError(f"a value holds {VALUE_END!r}, at which whoever reads the call ends it")
    if "enum" in kept or "const" in kept:
        return kept
    kinds = kept.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "string" in kinds and "pattern" not in kept and "format" not in kept:
        kept["pattern"] = _NO_TAG
    if "number" in kinds or "integer" in kinds:
        if "minimum" not in kept and "exclusiveMinimum" not in kept:
            kept["minimum"] = -_LARGEST
        if "maximum" not in kept and "exclusiveMaximum" not in kept:
            kept["maximum"] = _LARGEST
    return kept


def _named(key: str, names: bool) -> bool:
    return key in ("properties", "patternProperties", "$defs", "definitions") and not names


def _check_strict(schema: Any, root: Mapping[str, Any]) -> None:
    """Refuse JSON in which a string, a key or a number could be of a kind that is not read back as it was."""
    pending, seen = [schema], set[str]()
    while pending:
        item = pending.pop()
        if item is True or (isinstance(item, Mapping) and not _OPEN.isdisjoint(item)):
            raise GrammarError(
                "strings inside of JSON may have no `pattern` or `format`, and objects no other keys"
            )
        if not isinstance(item, Mapping):
            continue
        reference = item.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            seen.add(reference)
            pending.append(_target(reference, root))
        members = [member for key in ("anyOf", "oneOf", "allOf") for member in item.get(key) or ()]
        stated = bool(members) or not {"type", "enum", "const", "$ref"}.isdisjoint(item)
        kinds = item.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        closed = item.get("additionalProperties") is False or "object" not in kinds
        if (
            not stated
            or not closed
            or ("array" in kinds and "items" not in item and "prefixItems" not in item)
        ):
            raise GrammarError(
                "inside of JSON every value needs a type, and objects `additionalProperties` false"
            )
        pending += members
        pending += (item.get("properties") or {}).values()
        items = item.get("items")
        pending += [items] if items is not None else []
        pending += item.get("prefixItems") or ()
