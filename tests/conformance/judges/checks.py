"""What all judges written in Python share: where the server is, and one line on the output for each check."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from typing import Any

URL = os.environ["QANAT_URL"]
"""With /v1 at its end."""
KEY = os.environ["QANAT_KEY"]
MODEL = "pocket"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Look up the weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}

_checks: list[Callable[[], Any]] = []


def check(function: Callable[[], Any]) -> Callable[[], Any]:
    """A check: it passes unless it raises. Its name is a sentence."""
    _checks.append(function)
    return function


def ask(text: str) -> list[dict[str, Any]]:
    """A conversation of one question."""
    return [{"role": "user", "content": text}]


def raises(kind: type[Exception], call: Callable[[], Any]) -> Any:
    """The error that a call ends with, which must be of this kind."""
    try:
        answer = call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}, but {answer!r:.200}")


def report(name: str, why: str | None) -> None:
    """Tell how a check went; why: what was wrong, None if nothing was."""
    print(json.dumps({"check": name, "passed": why is None, "why": why}), flush=True)


def run() -> None:
    """Run all checks, in their order."""
    for function in _checks:
        why = None
        try:
            function()
        except Exception as error:
            traceback.print_exc()
            line = traceback.extract_tb(error.__traceback__)[-1]
            why = f"{type(error).__name__}: {str(error) or line.line}"[:400]
        report(function.__name__.replace("_", " "), why)
