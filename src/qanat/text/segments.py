"""A rendered prompt in parts: what the template wrote, and what a user wrote that must stay plain text."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Segment"]


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a rendered prompt.

    `trusted`: control tokens in `text` count as such. Not trusted: `text` is a control token's spelling that
    came in with a user's string, and is encoded as the characters it is made of (docs/frontend.md, 8).
    """

    text: str
    trusted: bool
