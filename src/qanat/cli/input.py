"""What the user hands in: standard input, text and JSON files, each read exactly and checked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from qanat.errors import QanatError, RequestError

__all__ = ["InputError", "read_json", "read_messages", "read_stdin", "read_tools", "stdin_is_terminal"]


class InputError(QanatError):
    """An argument, or a file named by one, cannot be used."""


def stdin_is_terminal() -> bool:
    """Whether a person could be typing; no standard input at all counts as a terminal."""
    return sys.stdin is None or sys.stdin.closed or sys.stdin.isatty()


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where} is not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start}; "
            "convert it first, for example with iconv"
        ) from None


def read_stdin() -> str:
    """All of standard input as text, line endings untouched."""
    return _text(sys.stdin.buffer.read(), "standard input")


def read_json(name: str) -> Any:
    """The JSON value in file `name`, or in standard input for `-`."""
    if name == "-":
        text, where = read_stdin(), "standard input"
    else:
        where = name
        try:
            text = _text(Path(name).read_bytes(), where)
        except FileNotFoundError:
            raise InputError(f"{name}: no such file") from None
        except OSError as error:
            raise InputError(f"{name}: {error.strerror or error}") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where} is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise InputError(f"{where} is not usable JSON: nested too deeply") from None


def read_messages(name: str) -> list[dict[str, Any]]:
    """A conversation: a list of messages, or an object that holds one under "messages" (a saved chat)."""
    value = read_json(name)
    if isinstance(value, dict) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise InputError(
            f'{name} must hold a list of messages such as [{{"role": "user", "content": "hello"}}], '
            f"not {_kind(value)}"
        )
    return value


def read_tools(name: str) -> list[dict[str, Any]]:
    """A list of tools, each a JSON-schema object as the OpenAI API takes them."""
    value = read_json(name)
    if not isinstance(value, list) or not all(isinstance(tool, dict) for tool in value):
        raise InputError(f"{name} must hold a list of tools (JSON objects), not {_kind(value)}")
    return value


def parse_ids(words: list[str]) -> list[int]:
    """Token ids typed as arguments or piped in: numbers between spaces, commas or JSON brackets."""
    ids = []
    for word in " ".join(words).replace(",", " ").replace("[", " ").replace("]", " ").split():
        if not word.isascii() or not word.isdigit():
            raise RequestError(f"{word!r} is not a token id: ids are whole numbers from 0 up")
        ids.append(int(word))
    return ids


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list of other things", str: "a string", bool: "a boolean"}
    return names.get(type(value), "null" if value is None else "a number")
