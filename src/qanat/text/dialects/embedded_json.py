"""JSON inside of an argument: its schema, so that whoever reads the call reads what was meant.

The reader ends an argument at the first closing tag, wherever it stands, and has room for so large numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from qanat.errors import GrammarError

__all__ = ["VALUE_END", "check_strict", "guarded", "target"]

VALUE_END = "</parameter>"
_LARGEST = 2**53
_OPEN = frozenset({"pattern", "format", "patternProperties", "propertyNames", "unevaluatedProperties"})
_NO_TAG = r"^([^<]|<[^/])*<?$"


def target(reference: Any, root: Mapping[str, Any]) -> Any:
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


def guarded(schema: Any, *, names: bool = False) -> Any:
    """A schema whose strings hold no closing tag, and whose numbers every reader has room for.

    names: whether the keys are names that somebody chose, and no keywords.
    """
    if isinstance(schema, list):
        return [guarded(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {
        key: value
        if key in ("enum", "const", "required") and not names
        else guarded(value, names=_named(key, names))
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


def check_strict(schema: Any, root: Mapping[str, Any]) -> None:
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
            pending.append(target(reference, root))
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
