"""Random JSON schemas of the subset that replies can be held to."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema

__all__ = ["random_schema", "violation"]

WORDS = (
    "name",
    "age",
    "city",
    "a b",
    'say "hi"',
    "Käse",
    "x_1",
    "日本",
    "on",
    "total",
    "tab\t",
    "back\\slash",
)


def random_schema(seed: int) -> dict[str, Any]:
    """An object with a few levels; the same seed gives the same."""
    rng = random.Random(seed)
    schema = _object(rng, 3)
    if rng.random() < 0.3:
        schema["$defs"] = {"part": _object(rng, 1)}
        schema["properties"]["part"] = {"$ref": "#/$defs/part"}
        schema["required"].append("part")
    return schema


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    names = rng.sample(WORDS, rng.randint(1, 4))
    return {
        "type": "object",
        "properties": {name: _value(rng, depth - 1) for name in names},
        "required": [name for name in names if rng.random() < 0.7],
        "additionalProperties": False,
    }


def _value(rng: random.Random, depth: int) -> dict[str, Any]:
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "const", "pattern", "range", "format"]
    kind = rng.choice(kinds + ["object", "array", "array", "anyOf"] * (depth > 0))
    if kind == "object":
        return _object(rng, depth)
    if kind == "array":
        least = rng.randint(0, 2)
        return {"type": "array", "items": _value(rng, depth - 1), "minItems": least, "maxItems": least + 2}
    if kind == "anyOf":
        return {"anyOf": [_value(rng, depth - 1) for _ in range(2)]}
    if kind == "enum":
        return {"enum": rng.sample(["red", "green", 'b"lue', 3, 2.5, None, True, "ü"], 3)}
    if kind == "const":
        return {"const": rng.choice(["fixed", 7, False])}
    if kind == "string":
        return {"type": "string", "minLength": rng.randint(0, 3), "maxLength": rng.randint(3, 12)}
    if kind == "pattern":
        return {"type": "string", "pattern": rng.choice(["^[A-Z]{2}[0-9]{1,3}$", "^(yes|no)$", "^a+b?$"])}
    if kind == "range":
        low = rng.randint(-50, 50)
        return {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 30)}
    if kind == "format":
        return {"type": "string", "format": rng.choice(["date", "time", "uuid", "ipv4"])}
    return {"type": kind}


def violation(text: str, schema: dict[str, Any]) -> str | None:
    """Why a text is not JSON of this schema; None if it is."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"{text!r} is no JSON: {error}"
    errors = list(jsonschema.Draft202012Validator(schema).iter_errors(value))
    return errors[0].message if errors else None
