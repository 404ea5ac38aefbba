"""Files of API keys, as the server and a client of it read them: one key a line, `#` before a remark."""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path

from qanat.errors import RequestError

__all__ = ["check_key", "read_keys"]

MOST = 1024 * 1024
"""Bytes of a file: a device such as /dev/zero has no end."""


def read_keys(path: Path) -> list[tuple[int, str]]:
    """What stands in the lines of a file that are neither blank nor a remark, and their numbers from 1 up.

    Blanks around a line are no part of it, nor is a byte order mark before the first. Whether it can be a key
    is `check_key`'s question.

    Raises:
        RequestError: the file cannot be read, or is far too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        raise RequestError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MOST:
        raise RequestError(f"{path} has more than {MOST} bytes: that is no file of keys")
    lines = [line.strip() for line in data.removeprefix(BOM_UTF8).splitlines()]
    return [
        (number, line.decode("utf-8", "replace"))
        for number, line in enumerate(lines, 1)
        if line and not line.startswith(b"#")
    ]


def check_key(key: str, where: str) -> str:
    """A key without the blanks around it. RequestError if it cannot stand in a header."""
    key = key.strip()
    if not key:
        raise RequestError(f"{where} holds no key")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise RequestError(f"{where}: a key has no blanks, control characters or letters beyond ASCII")
    return key
