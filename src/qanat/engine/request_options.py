"""What a request may ask of the scheduler: things that change when it is answered, never what."""

from __future__ import annotations

from dataclasses import dataclass

from qanat.engine.sampling_params import shown
from qanat.errors import RequestError

__all__ = ["RequestOptions"]

MOST_PRIORITY = 1000
LONGEST_SALT = 1024
LONGEST_TIMEOUT = 1e9  # seconds, thirty years


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Order, time and privacy of a request (docs/api.md).

    Raises:
        RequestError: a value is of the wrong type or out of range; the message names the field.
    """

    priority: int = 0
    """The higher goes first (-1000 to 1000), and may make a lower one wait; among equals the earlier."""
    timeout: float | None = None
    """Seconds from its submission after which it ends with a DeadlineError; None: no limit."""
    cache_salt: str = ""
    """Prefixes are reused only between requests of the same salt."""
    progress: bool = False
    """Streams tell in chunks of their own how far prompts have been read."""

    def __post_init__(self) -> None:
        if isinstance(self.priority, bool) or not isinstance(self.priority, int):
            raise RequestError(f"priority must be a whole number, not {shown(self.priority)}")
        if abs(self.priority) > MOST_PRIORITY:
            raise RequestError(
                f"priority must be from {-MOST_PRIORITY} to {MOST_PRIORITY}, not {shown(self.priority)}"
            )
        if self.timeout is not None:
            number = isinstance(self.timeout, int | float) and not isinstance(self.timeout, bool)
            if not number or not 0 < self.timeout <= LONGEST_TIMEOUT:
                raise RequestError(
                    f"timeout must be seconds, above 0 to {LONGEST_TIMEOUT:g}, not {shown(self.timeout)}"
                )
        if not isinstance(self.progress, bool):
            raise RequestError(f"progress must be True or False, not {shown(self.progress)}")
        if not isinstance(self.cache_salt, str) or len(self.cache_salt) > LONGEST_SALT:
            raise RequestError(
                f"cache_salt must be at most {LONGEST_SALT} characters of text, not {shown(self.cache_salt)}"
            )
