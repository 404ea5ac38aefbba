"""The engines of all replicas as one `EngineClient`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import RayServeException

from qanat.engine.reply import ReplyChunk
from qanat.engine.request_options import RequestOptions
from qanat.engine.stats import EngineStats, add_up
from qanat.errors import DeadlineError
from qanat.server.affinity import conversation_key
from qanat.server.engine_client import Answer, ModelInfo, Question, Request, Running, Stats
from qanat.server.errors import RelayedError, UnavailableError, log_bug
from qanat.server.wire import (
    Answered,
    Ask,
    Chunk,
    Ended,
    FromEngine,
    Queued,
    Refused,
    Run,
    decode_from_engine,
    pack,
    pack_question,
    pack_request,
)

__all__ = ["RayEngine", "stats_in"]

PERIOD = 1.0
"""Seconds between two looks at which replicas there are."""
PATIENCE = 10.0
"""Seconds for a replica to answer what it answers at once."""


class RayEngine:
    """Sends each request to a replica. Made in a running event loop, in which it watches the replicas.

    Args:
        handle: of the deployment of `EngineReplica`.
        running: how many of its replicas run; may block.
    """

    def __init__(self, handle: Any, running: Callable[[], int]) -> None:
        self.info: ModelInfo | None = None
        self._handle = handle
        self._running = running
        self._alive = 0
        self._watching = asyncio.create_task(self._watch())

    @property
    def state(self) -> str:
        """`ready` if a replica runs, else `loading`: Ray starts those that are missing."""
        return "ready" if self._alive and self.info is not None else "loading"

    async def _watch(self) -> None:
        while True:
            try:
                self._alive = await asyncio.to_thread(self._running)
                if self._alive and self.info is None:
                    async with asyncio.timeout(PATIENCE):
                        self.info = ModelInfo(await self._handle.context.remote(""))
            except (RayError, RayServeException, TimeoutError):
                self._alive = 0
            except Exception as error:  # whatever it is, an entrance that stops looking is of no use
                log_bug(error)
                self._alive = 0
            await asyncio.sleep(PERIOD)

    @asynccontextmanager
    async def run(self, request: Request, options: RequestOptions) -> AsyncIterator[Running]:
        """As `EngineClient.run`."""
        self._require_ready()
        key = conversation_key(request, options.cache_salt)
        said = self._say(key, Run(0, pack_request(request), options))
        try:
            try:
                # Ray may have no place for it: that time counts, and the replica does not see it.
                async with asyncio.timeout(options.timeout):
                    first = await _next(said)
            except TimeoutError:
                raise DeadlineError(f"the request was not begun within {options.timeout:g} s") from None
            assert isinstance(first, Queued)
            yield Running(first.echoed, _chunks(said))
        finally:
            said.cancel()  # does nothing to what has ended

    async def ask(self, question: Question) -> Answer:
        """As `EngineClient.ask`; the figures are those of all replicas together."""
        self._require_ready()
        if isinstance(question, Stats):
            return await self._stats()
        said = self._say("", Ask(0, pack_question(question)))
        try:
            answered = await _next(said)
        finally:
            said.cancel()
        assert isinstance(answered, Answered)
        return answered.answer

    async def _stats(self) -> EngineStats:
        try:
            found = await self._handle.broadcast("stats").results_async(timeout_s=PATIENCE)
        except (RayError, RayServeException, TimeoutError) as error:
            raise UnavailableError(
                f"a replica does not tell its figures ({type(error).__name__})", "loading"
            ) from None
        return add_up(stats_in(data) for data in found)

    def _say(self, key: str, message: Run | Ask) -> Any:
        return self._handle.options(stream=True).answer.remote(key, pack(message))

    def _require_ready(self) -> None:
        if self.state != "ready":
            raise UnavailableError("no replica of the model runs yet: try again later", "loading")


async def _chunks(said: Any) -> AsyncIterator[ReplyChunk]:
    while isinstance(message := await _next(said), Chunk):
        yield message.chunk
    assert isinstance(message, Ended)


async def _next(said: Any) -> FromEngine:
    """The next message of a replica; the errors that it reports, and its death, are raised."""
    try:
        message = decode_from_engine(await anext(said))
    except RayTaskError:  # a bug in the replica
        raise
    except (RayError, RayServeException):
        raise UnavailableError("a replica died before the request had ended", "engine_dead") from None
    if isinstance(message, Refused):
        raise RelayedError(message.status, message.body)
    return message


def stats_in(data: bytes) -> EngineStats:
    """The figures in what `EngineReplica.stats` gave."""
    message = decode_from_engine(data)
    assert isinstance(message, Answered)
    assert isinstance(message.answer, EngineStats)
    return message.answer
