"""JSON that is read as data and nothing else: no duplicate keys, no NaN, no endless numbers or nesting.

Python's own parser keeps the last of two equal keys, reads `NaN`, and turns a million digits into an
integer. Any of these in a checkpoint is damage or an attack, so all are refused here, in one place.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NoReturn

from qanat.errors import CheckpointError, QanatError

__all__ = [
    "MAX_JSON_FILE",
    "MAX_NESTING",
    "as_one_line",
    "file_exists",
    "parse_json",
    "read_json_file",
    "shown",
]

MAX_NESTING = 128  # the limit of the safetensors format; a config needs about 4
MAX_DIGITS = 40  # more than any 64-bit integer or double needs
MAX_JSON_FILE = 100_000_000  # bytes; the published tokenizer.json has 13 million


def as_one_line(text: str, limit: int = 80) -> str:
    """Quote text from a file so that an error message stays one printable line of bounded length."""
    shown = text if len(text) <= limit else text[:limit] + "…"
    return ascii(shown) if not shown.isprintable() else repr(shown)


def shown(value: object) -> str:
    """Show any parsed value in a message, on one line of bounded length."""
    if isinstance(value, int) and value.bit_length() > 256:
        return "an integer of hundreds of digits"  # Python refuses to print those
    return as_one_line(value) if isinstance(value, str) else as_one_line(str(value), 60).strip("'")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {as_one_line(key)} appears twice")
            seen.add(key)
    return found


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {as_one_line(digits, 30)} is too large")
    return value


def _refuse_half_characters(root: Any) -> None:
    """Walk all strings: a lone surrogate escape makes a string that no file can hold as UTF-8."""
    pending = [root]
    while pending:
        value = pending.pop()
        if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
            raise ValueError("a string holds half a character (a lone surrogate)")
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            pending.extend(value)
            pending.extend(value.values())


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

# Made once: `json.loads` with hooks builds a decoder, and its scanner, on every call.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_no_duplicates, parse_int=_integer, parse_float=_real, parse_constant=_no_constant
)


def file_exists(path: Path) -> bool:
    """Whether a regular file is there; a name too long or a closed folder counts as absent."""
    try:
        return path.is_file()
    except OSError:
        return False


def parse_json(data: bytes, what: str, error: type[QanatError], remedy: str = "the file is damaged") -> Any:
    """Parse UTF-8 JSON strictly.

    Args:
        data: the bytes of the whole document.
        what: how messages call the document, e.g. a path.
        error: the type to raise.
        remedy: how its message ends.

    Raises:
        QanatError: (as `error`) for anything but one well-formed JSON value.
    """
    try:
        value = _DECODER.decode(data.decode("utf-8"))
        if _SURROGATE.search(data):
            _refuse_half_characters(value)
        return value
    except UnicodeDecodeError as problem:
        raise error(f"{what}: not UTF-8 text (byte {problem.start}); {remedy}") from None
    except json.JSONDecodeError as problem:
        place = f"line {problem.lineno}, column {problem.colno}"
        raise error(f"{what}: not valid JSON at {place}: {problem.msg}; {remedy}") from None
    except RecursionError:
        raise error(f"{what}: nested too deeply; {remedy}") from None
    except ValueError as problem:  # from the hooks above
        raise error(f"{what}: {problem}; {remedy}") from None


def read_json_file(path: Path, error: type[CheckpointError]) -> dict[str, Any]:
    """Read a JSON file whose top level is an object.

    Raises:
        CheckpointError: (as `error`) when it cannot be read, is too large or is not a JSON object.
    """
    try:
        if not file_exists(path):
            raise error(f"{path}: no such file; the model folder is incomplete")
        size = path.stat().st_size
        if size > MAX_JSON_FILE:
            raise error(f"{path}: {size} bytes is too large for a JSON description (limit {MAX_JSON_FILE})")
        data = path.read_bytes()
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror or problem}") from None
    value = parse_json(data, str(path), error)
    if not isinstance(value, dict):
        raise error(f"{path}: the top level is {type(value).__name__}, expected an object {{...}}")
    return value
