"""An engine that does what a test says, for what no model would do on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qanat.engine import Reply, ReplyChunk, RequestOptions, Usage
from qanat.engine.stats import StepLog
from qanat.server.engine_client import Answer, ModelInfo, Question, Request, Running
from qanat.text.dialects import ReplyDelta


def chunk(text: str, *, last: bool = False) -> ReplyChunk:
    reply = Reply(text, None, (), (1,), "stop", Usage(1, 1), None, 0) if last else None
    return ReplyChunk(text, deltas=(ReplyDelta("content", text),) if text else (), reply=reply)


class FakeEngine:
    """Says `words`, one every `pause` seconds, then ends; or fails with `error` instead of ending.

    `queueing` is how long it takes until a request is queued.
    """

    def __init__(
        self,
        *,
        words: list[str] | None = None,
        pause: float = 0.0,
        queueing: float = 0.0,
        error: Exception | None = None,
        state: str = "ready",
    ) -> None:
        self.words = ["a", "b"] if words is None else words
        self.pause, self.queueing, self.error, self.state = pause, queueing, error, state
        self.info = ModelInfo(100) if state == "ready" else None
        self.begun = self.left = 0
        self.cancelled = 0

    @asynccontextmanager
    async def run(self, request: Request, options: RequestOptions) -> AsyncIterator[Running]:
        self.begun += 1
        try:
            await asyncio.sleep(self.queueing)
            yield Running(None, self._chunks())
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.left += 1

    async def _chunks(self) -> AsyncIterator[ReplyChunk]:
        for word in self.words:
            await asyncio.sleep(self.pause)
            yield chunk(word)
        if self.error is not None:
            raise self.error
        yield chunk("", last=True)

    async def ask(self, question: Question) -> Answer:
        if isinstance(self.error, Exception):
            raise self.error
        return StepLog().total(running=0, waiting=0, snapshots=0, free_pages=1, held_pages=0, pages=1)
