"""Typed, bounded reading of one JSON object of a config: every failure names the field.

The bounds are far above any real model and low enough that a hostile config can cause neither a hang
nor a giant allocation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from qanat.checkpoint.strict_json import shown
from qanat.errors import ConfigError, UnsupportedError

__all__ = ["Fields"]

_MISSING = object()


class Fields:
    """One JSON object and the name it has in messages, e.g. `config.json: text_config`."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    def fail(self, name: str, expectation: str) -> ConfigError:
        """Build the error for a field: where, which, what it holds, what was expected."""
        value = self.values.get(name, _MISSING)
        state = "is absent" if value is _MISSING else f"is {shown(value)}"
        return ConfigError(f"{self.where}: {name} {state}; expected {expectation}")

    def integer(self, name: str, default: int | None, *, low: int = 1, high: int) -> int:
        """Read an integer in [low, high]; absent or null gives the default, if there is one."""
        value = self.values.get(name)
        if value is None:
            value = default
        if type(value) is not int or not low <= value <= high:
            raise self.fail(name, f"an integer from {low} to {high}")
        return value

    def real(self, name: str, default: float, *, above: float, high: float) -> float:
        """Read a number in (above, high]."""
        value = self.values.get(name)
        if value is None:
            value = default
        if type(value) not in (int, float) or not above < value <= high or not math.isfinite(value):
            raise self.fail(name, f"a number above {above:g} and at most {high:g}")
        return float(value)

    def boolean(self, name: str, default: bool) -> bool:
        """Read true or false."""
        value = self.values.get(name)
        if value is None:
            return default
        if type(value) is not bool:
            raise self.fail(name, "true or false")
        return value

    def text(self, name: str, default: str | None = None) -> str | None:
        """Read a string."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.fail(name, "a string")
        return value

    def mapping(self, name: str) -> dict[str, Any] | None:
        """Read a nested object; absent or null gives None."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.fail(name, "an object {...}")
        return value

    def sequence(self, name: str) -> list[Any] | None:
        """Read a list; absent or null gives None."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, list):
            raise self.fail(name, "a list")
        return value

    def token_ids(self, name: str) -> tuple[int, ...]:
        """Read one token id or a list of them; absent or null gives ()."""
        value = self.values.get(name)
        if value is None:
            return ()
        ids = value if isinstance(value, list) else [value]
        if len(ids) > 1024 or any(type(i) is not int or not 0 <= i < 2**31 for i in ids):
            raise self.fail(name, "a token id or a short list of token ids")
        return tuple(ids)

    def only(self, name: str, allowed: tuple[Any, ...], reason: str) -> None:
        """Refuse a setting that qanat would otherwise silently ignore."""
        value = self.values.get(name)
        if value is None or any(value is a or (type(value) is type(a) and value == a) for a in allowed):
            return
        raise UnsupportedError(
            f"{self.where}: {name} is {shown(value)}, and qanat supports only "
            f"{' or '.join(str(a) for a in allowed)}: {reason}"
        )
