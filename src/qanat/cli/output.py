"""What the terminal is shown: text as it streams, thoughts dimmed, figures in plain units."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

__all__ = ["StreamPrinter", "bytes_text", "json_text", "note", "print_json", "print_text", "visible"]

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


def visible(text: str) -> str:
    """`text` with control characters made visible: what a model writes must not steer the terminal."""

    def picture(match: re.Match[str]) -> str:
        code = ord(match[0])
        return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"

    return _CONTROLS.sub(picture, text)


def is_terminal(stream: Any) -> bool:
    """Whether `stream` is a screen that understands styles."""
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def note(text: str) -> None:
    """A remark for the person, kept out of the result: one line on stderr."""
    line = visible(" ".join(text.split()))
    print(f"{_DIM}{line}{_PLAIN}" if is_terminal(sys.stderr) else line, file=sys.stderr, flush=True)


def json_text(value: Any) -> str:
    """JSON with characters as they are; what is no character (half a UTF-16 pair) stays an escape."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False)
    return text


def print_json(value: Any) -> None:
    """One JSON value on stdout; non-ASCII characters as they are."""
    print(json_text(value))


def print_text(text: str) -> None:
    """A result as it is; a screen also gets the line ending that it may lack."""
    if sys.stdout.isatty():
        text = visible(text)
        if not text.endswith("\n"):
            text += "\n"
    sys.stdout.write(text)


def bytes_text(count: float) -> str:
    """A number of bytes in decimal units, three digits: 4548144832 -> "4.55 GB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


class StreamPrinter:
    """Writes a reply as it arrives.

    On a screen thoughts are dim and stand before the answer. Elsewhere stdout gets the answer alone, as plain
    text that another program can read, and thoughts go to stderr.
    """

    def __init__(self, *, hide_thinking: bool) -> None:
        self.hide_thinking = hide_thinking
        self.screen = is_terminal(sys.stdout)
        self._thought: Any = None  # the stream an unfinished thought was written to
        self._last = "\n"

    def reasoning(self, text: str) -> None:
        """A piece of the thought."""
        if self.hide_thinking or not text:
            return
        if self._thought is None:
            self._thought = sys.stdout if self.screen else sys.stderr
            if is_terminal(self._thought):
                self._thought.write(_DIM)
        self._thought.write(visible(text) if self._thought.isatty() else text)
        self._thought.flush()

    def content(self, text: str) -> None:
        """A piece of the answer."""
        if not text:
            return
        self._end_thought()
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
        self._last = text[-1]

    def tool_call(self, name: str, arguments: str) -> None:
        """A whole tool call, one JSON object a line; arguments that are no JSON (a server's) as a string."""
        try:
            value = json.loads(arguments)
            self.line(json_text({"name": name, "arguments": value}))
        except (ValueError, RecursionError):
            self.line(json_text({"name": name, "arguments": arguments}))

    def line(self, text: str) -> None:
        """A line of its own."""
        self.content(("" if self._last == "\n" else "\n") + text + "\n")

    def finish(self) -> None:
        """End the last line and every style."""
        self._end_thought()
        if self._last != "\n":
            sys.stdout.write("\n")
            self._last = "\n"
        sys.stdout.flush()

    def _end_thought(self) -> None:
        if self._thought is not None:
            self._thought.write((_PLAIN if is_terminal(self._thought) else "") + "\n\n")
            self._thought.flush()
            self._thought = None
