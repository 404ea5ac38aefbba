"""What one step of a chat template may make: no operator, method or filter builds a giant.

A loop is stopped by the clock (see `template_environment`), but a single call such as `'a'.center(10**12)`
runs in C and cannot be. So its size is looked at beforehand. Jinja also computes constant expressions while
it compiles, where no clock runs at all; the operators here are therefore among those that it leaves alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from string import Formatter
from typing import Any

from jinja2.exceptions import SecurityError

__all__ = ["BOUNDED_OPERATORS", "bounded_filters", "check_call", "check_operator", "joined"]

MAX_REPEATED = 1 << 24  # characters or items that `*` may make
MAX_SIZE = 1 << 26  # that any other step may make: as many as a whole prompt may have
MAX_POWER_BITS = 1 << 16  # of a whole number
MAX_WIDTH = 10_000  # of padding, indentation, or the number of slices

BOUNDED_OPERATORS = frozenset({"*", "**", "%", "+"})
_LONG = re.compile(r"[0-9]{5,}")
_PERCENT = re.compile(r"%(?:\([^)]*\))?([-+ #0-9.*]*)")  # flags, width and precision of one field
_TEXT = (str, bytes)


def check_operator(operator: str, left: Any, right: Any) -> None:
    """SecurityError when `left operator right` would be a giant."""
    if operator == "*":
        for sequence, times in ((left, right), (right, left)):
            if (
                isinstance(sequence, str | bytes | list | tuple)
                and isinstance(times, int)
                and len(sequence) * times > MAX_REPEATED
            ):
                raise SecurityError("The chat template repeats a text or list too often.")
        if isinstance(left, int) and isinstance(right, int):
            _check_bits(left.bit_length() + right.bit_length())
    elif operator == "**":
        if isinstance(left, int) and isinstance(right, int):
            _check_bits(left.bit_length() * right)
    elif operator == "+":
        if isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
            _check_size(len(left) + len(right))
    elif isinstance(left, _TEXT):
        _check_percent(left, right)


def check_call(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """SecurityError when a method of a text would make a giant."""
    method = getattr(function, "__wrapped__", function)  # the sandbox wraps `format`
    text, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
    if not isinstance(text, _TEXT):
        return
    given = (*arguments, *keywords.values())
    if name in ("center", "ljust", "rjust", "zfill"):
        _check_widths(given)
    elif name == "expandtabs":
        _check_widths(given)
        _check_size(len(text) * max([8, *(n for n in given if isinstance(n, int))]))
    elif name in ("format", "format_map"):
        _check_braces(str(text), given)
    elif name == "replace" and len(given) >= 2:
        _check_replace(text, given[0], given[1])
    elif name == "join" and given:
        _check_join(text, given[0])
    elif name == "translate" and given and isinstance(given[0], dict):
        longest = max((len(v) for v in given[0].values() if isinstance(v, str)), default=1)
        _check_size(len(text) * longest)


def bounded_filters(filters: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Jinja's filters that can make a giant of little, each with a look at its arguments first."""
    checks: dict[str, Callable[..., None]] = {
        "center": lambda value, *more: _check_widths(more),
        "indent": lambda value, *more: _check_indent(str(value), more),
        "batch": lambda value, *more: _check_widths(more),
        "slice": lambda value, *more: _check_widths(more),
        "tojson": lambda value, *more: _check_widths(more),
        "format": lambda value, *more: _check_percent(str(value), more),
        "join": lambda value, *more: _check_join(more[0] if more else "", value),
        "replace": lambda value, *more: _check_replace(str(value), *more[:2]) if len(more) > 1 else None,
    }
    return {name: _with_check(filters[name], check) for name, check in checks.items()}


def _with_check(function: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    context = int(hasattr(function, "jinja_pass_arg"))  # such filters get a context before the value

    @functools.wraps(function)  # carries over Jinja's marks
    def checked(*arguments: Any, **keywords: Any) -> Any:
        check(*arguments[context:], *keywords.values())
        return function(*arguments, **keywords)

    return checked


def _check_bits(bits: int) -> None:
    if bits > MAX_POWER_BITS:
        raise SecurityError("The chat template makes too high a number.")


def _check_size(size: int) -> None:
    if size > MAX_SIZE:
        raise SecurityError("The chat template makes too long a text or list in one step.")


def _check_widths(given: Iterable[Any]) -> None:
    if any(isinstance(number, int) and number > MAX_WIDTH for number in given):
        raise SecurityError("The chat template asks for too great a width or number.")


def _check_indent(text: str, given: tuple[Any, ...]) -> None:
    _check_widths(given)
    width = max([4, *(len(n) if isinstance(n, str) else n for n in given if isinstance(n, int | str))])
    _check_size(len(text) + text.count("\n") * width)


def _check_percent(text: str | bytes, given: Any) -> None:
    spelled = text.decode("latin-1") if isinstance(text, bytes) else text
    values = given if isinstance(given, tuple) else (given,)
    for settings in _PERCENT.findall(spelled):
        _check_field(settings, "*", values)


def _check_braces(text: str, given: tuple[Any, ...]) -> None:
    try:
        fields = list(Formatter().parse(text))
    except ValueError:  # left to the formatter itself
        return
    values = [v for g in given for v in (g.values() if isinstance(g, dict) else (g,))]
    for _, _, settings, _ in fields:
        _check_field(settings or "", "{", values)


def _check_field(settings: str, open_width: str, values: Iterable[Any]) -> None:
    if _LONG.search(settings):
        raise SecurityError("The chat template asks for too great a width or number.")
    if open_width in settings:  # the width is among the values
        _check_widths(values)


def _check_replace(text: str | bytes, old: Any, new: Any) -> None:
    if isinstance(old, type(text)) and isinstance(new, type(text)):
        _check_size(len(text) + (text.count(old) * len(new)))  # type: ignore[arg-type]


def _check_join(separator: Any, values: Any) -> None:
    if isinstance(values, str | list | tuple | dict):
        own = sum(len(value) for value in values if isinstance(value, _TEXT))
        _check_size(own + len(str(separator)) * len(values))
    else:  # a generator, whose length nobody knows
        _check_widths([len(str(separator))])


def joined(*parts: Any) -> str:
    """What `~` makes of its parts, unless it would be a giant."""
    texts = [str(part) for part in parts]
    _check_size(sum(map(len, texts)))
    return "".join(texts)
