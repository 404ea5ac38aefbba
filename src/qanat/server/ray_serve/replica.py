"""One engine in a process of Ray's: a replica. Ray starts another when it has died."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from qanat.server.engine_client import EngineOptions, Stats
from qanat.server.local_engine import LocalEngine
from qanat.server.relay import answer
from qanat.server.wire import Ask, Run, decode_to_engine, pack

__all__ = ["EngineReplica"]


class EngineReplica:
    """Answers messages. What goes in and out is MessagePack, as between a server and its engine's process."""

    def __init__(self, options: EngineOptions) -> None:
        self._engine = LocalEngine(options)

    async def answer(self, key: str, data: bytes) -> AsyncIterator[bytes]:
        """What is said to a message. key: is the router's; the replica has been chosen by it."""
        message = decode_to_engine(data)
        assert isinstance(message, Run | Ask)
        async with aclosing(answer(self._engine, message)) as said:
            async for item in said:
                yield pack(item)

    async def context(self, key: str) -> int:
        """The longest prompt plus reply, in tokens."""
        return self._engine.info.context

    async def stats(self) -> bytes:
        """What this replica has done so far, as a message."""
        return b"".join([pack(item) async for item in answer(self._engine, Ask(0, Stats()))])
