"""What the user hands in: standard input, text and JSON files, each read exactly and checked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from qanat.errors import QanatError, RequestError

__all__ = [
    "InputError",
    "parse_ids",
    "read_json",
    "read_messages",
    "read_stdin",
    "read_tools",
    "require_text",
    "require_words",
    "stdin_is_terminal",
]

MAX_FILE = 100_000_000
"""Bytes of the largest JSON file that is read: a device such as /dev/zero has no end."""
MAX_ID_DIGITS = 18  # what fits 64 bits; Python refuses to read thousands


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
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("there is no standard input to read: it was closed by the caller")
    return _text(sys.stdin.buffer.read(), "standard input")


def require_text(text: str, where: str) -> str:
    """`text` itself, if it is made of characters: bytes that are not UTF-8 reach us as lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where} holds something that is no character (U+{ord(text[error.start]):04X}) after "
            f"{error.start} characters: it must be UTF-8 text without halves of UTF-16 pairs"
        ) from None
    return text


def require_words(text: str, what: str) -> str:
    """`text` itself, unless there is nothing in it to read."""
    if not text.strip():
        raise InputError(
            f"the {what} is {'blank' if text else 'empty'}: give one as an argument, or pipe one in"
        )
    return text


def _read_file(name: str) -> str:
    if not name:
        raise InputError("the name of a file is empty")
    try:
        with Path(name).open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        raise InputError(f"{name}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_FILE:
        raise InputError(f"{name} has more than {MAX_FILE // 10**6} MB: that cannot be meant")
    return _text(data, name)


def _source(name: str) -> str:
    return "standard input" if name == "-" else name


def read_json(name: str) -> Any:
    """The JSON value in file `name`, or in standard input for `-`; all its strings are text."""
    text, where = read_stdin() if name == "-" else _read_file(name), _source(name)
    try:
        value = json.loads(text)
        if "\\u" in text:  # only an escape can smuggle in half a character
            require_text(json.dumps(value, ensure_ascii=False), where)
        return value
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where} is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise InputError(f"{where} is not usable JSON: nested too deeply") from None
    except ValueError:
        raise InputError(f"{where} is not usable JSON: a number has thousands of digits") from None


def read_messages(name: str) -> list[dict[str, Any]]:
    """A conversation: a list of messages, or an object that holds one under "messages" (a saved chat)."""
    value = read_json(name)
    if isinstance(value, dict) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise InputError(
            f'{_source(name)} must hold a list of messages such as [{{"role": "user", "content": "hello"}}], '
            f"not {_kind(value)}"
        )
    return value


def read_tools(name: str) -> list[dict[str, Any]]:
    """A list of tools, each a JSON-schema object as the OpenAI API takes them."""
    value = read_json(name)
    if not isinstance(value, list) or not all(isinstance(tool, dict) for tool in value):
        raise InputError(f"{_source(name)} must hold a list of tools (JSON objects), not {_kind(value)}")
    return value


def read_schema(given: str) -> dict[str, Any]:
    """A JSON schema, typed as it is or in a file of that name."""
    if given.lstrip()[:1] not in ("{", "["):
        value = read_json(given)
        where = _source(given)
    else:
        where = "the schema"
        try:
            value = json.loads(_text(given.encode("utf-8", "surrogateescape"), where))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{where} must be a JSON object, not {_kind(value)}")
    return value


def parse_ids(words: list[str]) -> list[int]:
    """Token ids typed as arguments or piped in: numbers between spaces, commas or JSON brackets."""
    ids = []
    for word in " ".join(words).replace(",", " ").replace("[", " ").replace("]", " ").split():
        if not word.isascii() or not word.isdigit() or len(word) > MAX_ID_DIGITS:
            shown = repr(word if len(word) <= 40 else word[:40] + "...")
            raise RequestError(f"{shown} is not a token id: ids are whole numbers from 0 up")
        ids.append(int(word))
    return ids


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list of other things", str: "a string", bool: "a boolean"}
    return names.get(type(value), "null" if value is None else "a number")
