"""From token ids to the text of one reply: streaming decoder, then stop texts."""

from __future__ import annotations

from typing import Protocol

from qanat.engine.stop_strings import StopStrings

__all__ = ["Decoder", "TextOutput"]


class Decoder(Protocol):
    """A streaming decoder, as `Tokenizer.stream()` makes it."""

    def step(self, token: int, /) -> str:
        """Text that is certain after one more token."""

    def flush(self) -> str:
        """Text of bytes that were still waiting for the rest of a character."""


class TextOutput:
    """The text of one reply as it grows. The joined pieces are the text."""

    def __init__(self, decoder: Decoder, stops: StopStrings) -> None:
        self._decoder = decoder
        self._stops = stops

    @property
    def stopped(self) -> bool:
        """Whether a stop text was found."""
        return self._stops.matched is not None

    def add(self, token: int, *, watch: bool) -> str:
        """Decode one more token and look for stop texts, unless `watch` is False (before min_tokens)."""
        text = self._decoder.step(token)
        return self._stops.feed(text) if watch else text

    def finish(self) -> str:
        """The reply has ended: whatever was held back by the decoder or for a stop text."""
        text = self._stops.feed(self._decoder.flush())
        return text + self._stops.flush()
