"""How fast a reply came: measured around the stream, so that it is what the user waited for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

__all__ = ["Stopwatch"]


@dataclass
class Stopwatch:
    """Started when the request is handed over; `token()` at every chunk.

    The time to the first token is the prompt's, the rest is decoding's: the first token comes out of the
    pass that reads the prompt.
    """

    started: float = field(default_factory=time.perf_counter)
    first: float | None = None
    last: float | None = None

    def token(self) -> None:
        """A chunk has arrived."""
        self.last = time.perf_counter()
        if self.first is None:
            self.first = self.last

    @property
    def prompt_seconds(self) -> float:
        """From the request to the first token."""
        return (self.first or time.perf_counter()) - self.started

    @property
    def decode_seconds(self) -> float:
        """From the first token to the last."""
        return (self.last - self.first) if self.first is not None and self.last is not None else 0.0

    def describe(self, prompt_tokens: int, tokens: int, bytes_per_token: float) -> str:
        """The speeds in words; GB/s are the weights read for each decoded token."""
        read = f"prompt {prompt_tokens} tokens"
        if prompt_tokens and self.prompt_seconds > 0:
            read += f" at {prompt_tokens / self.prompt_seconds:.1f} tok/s"
        written = f"reply {tokens} tokens"
        if tokens > 1 and self.decode_seconds > 0:
            rate = (tokens - 1) / self.decode_seconds
            written += f" at {rate:.1f} tok/s ({rate * bytes_per_token / 1e9:.3g} GB/s of weights)"
        return f"{read}, {written}"
