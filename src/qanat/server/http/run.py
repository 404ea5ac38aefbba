"""A server from its start to its end: listen, load, answer, and when told to stop let requests end first."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Callable
from functools import partial
from types import FrameType

import uvicorn

from qanat.server.child_engine import LoadError
from qanat.server.engine_client import EngineOptions
from qanat.server.http.access_log import AccessLog
from qanat.server.http.address import listen, url
from qanat.server.http.api_keys import ApiKeys
from qanat.server.http.app import create_app
from qanat.server.http.protocol import Protocol
from qanat.server.http.service import Service
from qanat.server.http.settings import ServerSettings
from qanat.server.supervisor import Supervisor

__all__ = ["configure", "run_server"]

IDLE = 30
"""Seconds that a connection is kept between two requests."""
OTHER_FILES = 64
"""Open files beside connections."""
LAST_WORDS = 5
"""Seconds for connections to close in, once nothing is under way any more."""


class _Server(uvicorn.Server):
    """uvicorn, which on a signal does what we say instead of closing its sockets at once."""

    def __init__(self, config: uvicorn.Config, on_signal: Callable[[], object]) -> None:
        super().__init__(config)
        self._on_signal = on_signal

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal has come; the first asks to stop, the second stops at once."""
        self._on_signal()


def run_server(
    settings: ServerSettings,
    options: EngineOptions,
    *,
    restart: bool,
    tell: Callable[[str], None],
    before: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT. Blocks.

    Args:
        settings: how.
        options: with which model.
        restart: start the engine's process again if it dies.
        tell: is told in sentences what a person should know.
        before: is called before the model is loaded, once the other arguments are known to be good.

    Raises:
        RequestError: the address or the key file cannot be used; before anything is loaded.
        LoadError: the model cannot be loaded.
    """
    keys = None if settings.key_file is None else ApiKeys(settings.key_file)
    listener = listen(settings.host, settings.port, keys=keys is not None)
    _allow_files(settings.most_connections + OTHER_FILES)
    engine = Supervisor(options, restart=restart, tell=tell)
    with contextlib.closing(listener):
        before()
        asyncio.run(_serve(settings, engine, keys, listener, tell))


def configure(app: AccessLog, settings: ServerSettings) -> uvicorn.Config:
    """uvicorn for an application: HTTP/1.1 by h11 and nothing else, within the settings' bounds."""
    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=settings.most_head,
        limit_concurrency=settings.most_connections,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=LAST_WORDS,
    )


def _allow_files(wanted: int) -> None:
    """Let this process have so many open files, as far as it may: without, connections would not be taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def _serve(
    settings: ServerSettings,
    engine: Supervisor,
    keys: ApiKeys | None,
    listener: socket.socket,
    tell: Callable[[str], None],
) -> None:
    service = Service(engine, settings)
    loop, stop, at_once = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (at_once if stop.is_set() else stop).set()

    config = configure(create_app(service, keys), settings)
    server = _Server(config, partial(loop.call_soon_threadsafe, on_signal))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    loading = asyncio.create_task(_load(engine, listener, tell))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({serving, stopping, loading}, return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            loading.result()  # LoadError: there is nothing to serve
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            await _drain(service, at_once, tell)
    finally:
        server.should_exit = True
        for task in (loading, stopping):
            task.cancel()
        await asyncio.wait({loading, stopping})
        await engine.close()  # what is still under way ends with an error, which its client is told
        await serving


async def _load(engine: Supervisor, listener: socket.socket, tell: Callable[[str], None]) -> None:
    try:
        await engine.start()
    except LoadError as error:
        if error.mendable:
            raise
        raise RuntimeError(f"the engine could not start: {error}") from None
    tell(f"ready: OpenAI's API at {url(listener)}/v1, a page at {url(listener)}/ (Ctrl-C ends it)")


async def _drain(service: Service, at_once: asyncio.Event, tell: Callable[[str], None]) -> None:
    """Take nobody new, and wait until those that are inside have their answers or the time is up."""
    service.stop_taking()
    inside = service.requests.inside
    if inside:
        tell(
            f"stopping: {inside} requests have {service.settings.drain:g} s to end; "
            "a second signal ends them now"
        )
    ended = asyncio.create_task(service.requests.empty())
    second = asyncio.create_task(at_once.wait())
    await asyncio.wait({ended, second}, timeout=service.settings.drain, return_when=asyncio.FIRST_COMPLETED)
    for task in (ended, second):
        task.cancel()
