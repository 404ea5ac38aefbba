"""Ids one by one -> text as soon as it is certain (docs/frontend.md, section 7)."""

from __future__ import annotations

import codecs
from collections.abc import Callable

__all__ = ["StreamDecoder"]


class StreamDecoder:
    """Decodes a sequence of ids piecewise; the joined pieces equal `Tokenizer.decode` of them all.

    A character whose bytes are spread over several tokens appears with the token that completes it. Bytes
    that can no longer become a character appear as U+FFFD at once. Work per id is constant.
    """

    def __init__(self, bytes_of: Callable[[int], bytes]) -> None:
        """`bytes_of`: the bytes an id adds to the text, empty for one that is left out."""
        self._bytes_of = bytes_of
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def step(self, token: int) -> str:
        """The text that became certain with this id, perhaps empty."""
        return self._utf8.decode(self._bytes_of(token))

    def flush(self) -> str:
        """The rest: U+FFFD if the sequence ends inside a character. The decoder may then start anew."""
        text = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        return text
