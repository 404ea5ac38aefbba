"""From the text of an argument to JSON, by the type its schema allows.

The format writes every value as bare text, so `5` may be a number or a string; only the tool's
schema can tell. Nothing is evaluated and nothing raises: what cannot be read as an allowed type
stays a string.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

__all__ = ["argument_json", "json_string"]

# Where several types are allowed the narrower reading wins; `string` is what remains.
_ORDER = ("null", "boolean", "integer", "number", "array", "object")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_MAX_DIGITS = 300  # longer numbers overflow the parsers of the tools that get them
_EXACT_INTEGER = 2**53
_SURROGATE = re.compile("[\ud800-\udfff]")


def argument_json(text: str, types: frozenset[str] | None) -> str:
    """The value as JSON text that any JSON parser can read.

    Args:
        text: the value as the model wrote it.
        types: the types allowed (`ArgumentTypes.of`); with None, JSON if the text is JSON, else a string.
    """
    bare = text.strip()
    if types is None:
        literal = _json(bare)
        return json_string(text) if literal is None else literal
    for name in _ORDER:
        if name in types and (literal := _READERS[name](bare)) is not None:
            return literal
    return json_string(text)


def json_string(text: str) -> str:
    """A JSON string; half surrogate pairs, which UTF-8 cannot carry, are escaped."""
    return _dumps(text)


def _null(text: str) -> str | None:
    return "null" if text in ("null", "None") else None


def _boolean(text: str) -> str | None:
    return {"true": "true", "True": "true", "false": "false", "False": "false"}.get(text)


def _number(text: str) -> str | None:
    if len(text) > _MAX_DIGITS or not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        return None
    return text


def _integer(text: str) -> str | None:
    number = _number(text)
    if number is None or _INTEGER.fullmatch(number):
        return number
    value = float(number)  # 5.0 and 1e3 are integers too
    return str(int(value)) if value.is_integer() and abs(value) <= _EXACT_INTEGER else None


def _json(text: str) -> str | None:
    try:
        return _dumps(json.loads(text, parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        return None


def _array(text: str) -> str | None:
    return _json(text) if text.startswith("[") else None


def _object(text: str) -> str | None:
    return _json(text) if text.startswith("{") else None


_READERS: dict[str, Callable[[str], str | None]] = {
    "null": _null,
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "array": _array,
    "object": _object,
}


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _dumps(value: Any) -> str:
    """JSON text; raises ValueError for numbers that JSON cannot hold."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return json.dumps(value, allow_nan=False) if _SURROGATE.search(text) else text
