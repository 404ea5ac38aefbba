"""Reading a Google-style docstring: description, arguments, return value.

Deliberately as literal as the reference about odd docstrings: the words `Args:`, `Returns:` and
`Raises:` end a section wherever they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Docstring"]

_ARGUMENTS = re.compile(r"\n\s*Args:\n")
_RETURNS = re.compile(r"\n\s*Returns:\n\s*")
# `name:` or `name (type):` at the start of a line
_ENTRY = re.compile(r"([ \t]*)(\w+)(?:[ \t]*\([^()\n]*\))?:")
_LINE_BREAK = re.compile(r"\s*\n+\s*")


@dataclass(frozen=True)
class Docstring:
    """The parts of a docstring; `returns` is None when there is no such section."""

    description: str
    arguments: dict[str, str]
    returns: str | None

    @classmethod
    def parse(cls, text: str) -> Docstring:
        """Split a docstring that was cleaned by `inspect.getdoc` and stripped."""
        arguments = _ARGUMENTS.search(text)
        returns = _RETURNS.search(text)
        return cls(
            description=_until(text, ("Args:", "Returns:", "Raises:")).strip(),
            arguments=(
                _entries(_until(text[arguments.end() :], ("Returns:", "Raises:")).rstrip())
                if arguments
                else {}
            ),
            returns=_until(text[returns.end() :], ("Raises:",)).strip() if returns else None,
        )


def _until(text: str, words: Iterable[str]) -> str:
    """The text before the first of the words."""
    ends = [at for word in words if (at := text.find(word)) >= 0]
    return text[: min(ends, default=len(text))]


def _entries(section: str) -> dict[str, str]:
    """Descriptions by argument; a line indented deeper than its entry's name belongs to the entry."""
    entries: dict[str, str] = {}
    name, indent = "", ""
    lines: list[str] = []

    def close() -> None:
        if name:
            entries[name] = _LINE_BREAK.sub(" ", "\n".join(lines).strip())

    for line in section.split("\n"):
        if not line.strip():
            continue
        found = _ENTRY.match(line)
        deeper = line.startswith((indent + " ", indent + "\t"))
        # An entry whose own line ends at the colon takes the next line whatever it looks like.
        waiting = len(lines) == 1 and not lines[0].strip()
        if found and not (name and (deeper or waiting)):
            close()
            indent, name = found[1], found[2]
            lines = [line[found.end() :]]
        elif name:
            lines.append(line)
    close()
    return entries
