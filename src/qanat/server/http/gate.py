"""How many may be served at once: whoever comes when all places are taken is sent away, not kept waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from qanat.errors import QueueFullError
from qanat.server.errors import UnavailableError

__all__ = ["Gate"]


class Gate:
    """Counts who is inside.

    Args:
        most: places.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.inside = 0
        self.closed = False
        self._empty = asyncio.Event()
        self._empty.set()

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place for the block.

        Raises:
            QueueFullError: there is none.
            UnavailableError: nobody is let in any more.
        """
        if self.closed:
            raise UnavailableError("the server is being stopped: ask another, or again later", "stopping")
        if self.inside >= self._most:
            raise QueueFullError(
                f"{self.inside} requests are under way, the most there may be: try again later"
            )
        self.inside += 1
        self._empty.clear()
        try:
            yield
        finally:
            self.inside -= 1
            if not self.inside:
                self._empty.set()

    async def empty(self) -> None:
        """Wait until nobody is inside."""
        await self._empty.wait()
