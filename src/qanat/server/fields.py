"""Reading a JSON object field by field: typed, bounded, and every error names the field.

A reader is a function of (value, path) that gives the value back as what it must be, or raises FieldError.
`null` counts as not given, as clients send it for every option they do not use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from qanat.engine.sampling_params import shown
from qanat.errors import RequestError

__all__ = [
    "FieldError",
    "Fields",
    "Reader",
    "any_value",
    "boolean",
    "integer",
    "listed",
    "number",
    "one_of",
    "text",
]

T = TypeVar("T")
Reader = Callable[[Any, str], T]

MAX_TEXT = 1 << 26
"""Characters of one string: more than fits any context."""
MAX_NESTING = 64
"""Levels of a value that is passed on as it is, such as a tool's schema."""


class FieldError(RequestError):
    """A field of a request cannot be used.

    Attributes:
        param: its path, such as `messages[2].content`; None for the body as a whole.
        code: OpenAI's word for what is wrong, where there is one.
    """

    def __init__(self, message: str, param: str | None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class Fields:
    """The fields of one object, each taken once; `close` refuses what nobody took.

    Args:
        value: any JSON value; FieldError if it is no object.
        path: where it stands in the body; "" is the body itself.
    """

    def __init__(self, value: Any, path: str = "") -> None:
        if not isinstance(value, dict):
            raise FieldError(f"{_quoted(path)} must be an object, not {_told(value)}", path or None)
        self.path = path
        self._left = dict(value)

    def of(self, name: str) -> str:
        """The path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def take(self, name: str, read: Reader[T]) -> T | None:
        """An optional field; None if it is absent or null."""
        value = self._left.pop(name, None)
        return None if value is None else read(value, self.of(name))

    def require(self, name: str, read: Reader[T]) -> T:
        """A field that must be there."""
        value = self.take(name, read)
        if value is None:
            raise FieldError(f"`{self.of(name)}` is missing", self.of(name), "missing_required_parameter")
        return value

    def refuse(self, name: str, why: str) -> None:
        """A field that is known but has no effect here: refused, unless it is null or empty."""
        value = self._left.pop(name, None)
        if value is not None and value not in ("", [], {}):
            raise FieldError(
                f"`{self.of(name)}` is not supported: {why}", self.of(name), "unsupported_parameter"
            )

    def close(self) -> None:
        """Refuse every field that is left, by its name: one that is not known would be ignored."""
        for name in self._left:
            path = self.of(name if name.isidentifier() and len(name) <= 64 else shown(name))
            raise FieldError(f"unknown field `{path}`: it would have no effect", path, "unknown_parameter")


def text(value: Any, path: str) -> str:
    """A string of whole characters."""
    if not isinstance(value, str):
        raise FieldError(f"`{path}` must be a string, not {_told(value)}", path)
    if len(value) > MAX_TEXT:
        raise FieldError(f"`{path}` has {len(value)} characters; at most {MAX_TEXT} are read", path)
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise FieldError(f"`{path}` holds half a character (a lone surrogate), which is no text", path)
    return value


def boolean(value: Any, path: str) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise FieldError(f"`{path}` must be true or false, not {_told(value)}", path)
    return value


def integer(low: int, high: int) -> Reader[int]:
    """A whole number from `low` to `high`; 5.0 is one too, as in JSON schema."""

    def read(value: Any, path: str) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise FieldError(
                f"`{path}` must be a whole number from {low} to {high}, not {_told(value)}", path
            )
        return value

    return read


def number(low: float, high: float) -> Reader[float]:
    """A number from `low` to `high`."""

    def read(value: Any, path: str) -> float:
        # The comparison is exact for whole numbers beyond every float, and false for NaN.
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise FieldError(f"`{path}` must be a number from {low:g} to {high:g}, not {_told(value)}", path)
        return float(value)

    return read


def one_of(*choices: str) -> Reader[str]:
    """One of a few words."""

    def read(value: Any, path: str) -> str:
        if not isinstance(value, str) or value not in choices:
            words = ", ".join(f'"{choice}"' for choice in choices)
            raise FieldError(f"`{path}` must be {words}, not {_told(value)}".replace('", "', '" or "'), path)
        return value

    return read


def listed(read_item: Reader[T], *, most: int, least: int = 0) -> Reader[list[T]]:
    """A list of `least` to `most` items."""

    def read(value: Any, path: str) -> list[T]:
        if not isinstance(value, list):
            raise FieldError(f"`{path}` must be a list, not {_told(value)}", path)
        if not least <= len(value) <= most:
            raise FieldError(f"`{path}` has {len(value)} entries; {least} to {most} are allowed", path)
        return [read_item(item, f"{path}[{place}]") for place, item in enumerate(value)]

    return read


def any_value(value: Any, path: str) -> Any:
    """Any JSON value that can be written as JSON again, nested to a bounded depth."""
    pending = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        if depth > MAX_NESTING:
            raise FieldError(f"`{path}` is nested more than {MAX_NESTING} levels deep", path)
        if isinstance(item, str):
            text(item, path)
        elif isinstance(item, float) and not math.isfinite(item):
            raise FieldError(f"`{path}` holds a number that is not finite", path)
        elif isinstance(item, dict):
            pending += [(key, depth) for key in item]
            pending += [(inner, depth + 1) for inner in item.values()]
        elif isinstance(item, list):
            pending += [(inner, depth + 1) for inner in item]
    return value


def _quoted(path: str) -> str:
    return f"`{path}`" if path else "the body"


def _told(value: object) -> str:
    """A value in a message: containers by their kind, for their contents may be anything."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return shown(value)
