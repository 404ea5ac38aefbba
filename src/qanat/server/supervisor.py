"""Keeps an engine's process: starts it, notices its death, and starts it again where that is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from qanat.engine.request_options import RequestOptions
from qanat.errors import QanatError
from qanat.server.child_engine import ChildEngine
from qanat.server.engine_client import Answer, EngineOptions, ModelInfo, Question, Request, Running
from qanat.server.errors import UnavailableError

__all__ = ["Supervisor"]

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between a death and the next start: twice as many after each, as few again after a long life."""
LONG_LIFE = 300.0


class Supervisor:
    """An `EngineClient` whose process may die.

    Args:
        options: what the process loads.
        restart: start another when it has died; else it stays dead.
        tell: is told of deaths and starts, in a sentence.
    """

    def __init__(self, options: EngineOptions, *, restart: bool, tell: Callable[[str], None]) -> None:
        self.info: ModelInfo | None = None
        self._options = options
        self._restart = restart
        self._tell = tell
        self._child: ChildEngine | None = None
        self._loading = True
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        """`loading`, `ready` or `dead`; between a death and the next start, if there is one, `loading`."""
        if self._child is not None and self._child.state == "ready":
            return "ready"
        # From its first moment on a death is one that nobody has to do anything about.
        return "loading" if self._loading or (self._restart and self._task is not None) else "dead"

    async def start(self) -> None:
        """Load the model, and from then on keep it. LoadError if that fails the first time."""
        child = await self._begin()
        self._task = asyncio.create_task(self._keep(child))

    async def close(self) -> None:
        """End the process; requests that are under way end with an error."""
        if self._child is not None:
            self._child.stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _begin(self) -> ChildEngine:
        self._loading = True
        try:
            self._child = await ChildEngine.start(self._options)
        finally:
            self._loading = False
        self.info = self._child.info
        return self._child

    async def _keep(self, child: ChildEngine) -> None:
        """Listen to one child after the other."""
        pause, clock = FIRST_PAUSE, asyncio.get_running_loop()
        while True:
            born = clock.time()
            how = await child.listen()
            if not self._restart:
                self._tell(
                    f"the engine's process died ({how}); requests are refused until the server is restarted"
                )
                return
            pause = FIRST_PAUSE if clock.time() - born > LONG_LIFE else pause
            while True:
                self._tell(f"the engine's process died ({how}); it is started again in {pause:g} s")
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                try:
                    child = await self._begin()
                    break
                except QanatError as error:
                    how = str(error)
            self._tell("the engine is ready again")

    def run(self, request: Request, options: RequestOptions) -> AbstractAsyncContextManager[Running]:
        """As `EngineClient.run`."""
        return self._ready().run(request, options)

    async def ask(self, question: Question) -> Answer:
        """As `EngineClient.ask`."""
        return await self._ready().ask(question)

    def _ready(self) -> ChildEngine:
        if self._child is not None and self._child.state == "ready":
            return self._child
        if self.state == "loading":
            raise UnavailableError("the model is still being loaded: try again later", "loading")
        raise UnavailableError("the engine's process has died: the server must be restarted", "engine_dead")
