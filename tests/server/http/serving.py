"""Servers for the tests: in a thread of this process, or `qanat serve` as a program; and a plain client."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from qanat.server.engine_client import EngineClient
from qanat.server.http.address import listen
from qanat.server.http.api_keys import ApiKeys
from qanat.server.http.app import create_app
from qanat.server.http.run import configure
from qanat.server.http.service import Service
from qanat.server.http.settings import ServerSettings
from tests.cli.commands import command, environment

JSON = dict[str, Any]


class Client:
    """Talks to a server on this machine."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.service: Service | None = None

    def connect(self, seconds: float = 30) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, body (parsed if it is JSON) and headers."""
        with contextlib.closing(self.connect()) as connection:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, headers or {})
            answer = connection.getresponse()
            text = answer.read()
            told = {name.lower(): value for name, value in answer.getheaders()}
            if told.get("content-type") == "application/json":
                return answer.status, json.loads(text), told
            return answer.status, text.decode(), told

    def post(self, path: str, headers: dict[str, str] | None = None, **fields: Any) -> JSON:
        status, body, _ = self.ask("POST", path, fields, headers)
        assert status == 200, body
        return dict(body)

    def refused(self, status: int, path: str, **fields: Any) -> JSON:
        """The error object of a request that gets this status."""
        got, body, _ = self.ask("POST", path, fields)
        assert got == status, (got, body)
        return dict(body["error"])

    @contextlib.contextmanager
    def streaming(self, path: str, **fields: Any) -> Iterator[Stream]:
        """A stream that has begun; leaving the block closes the connection."""
        with contextlib.closing(self.connect()) as connection:
            connection.request("POST", path, json.dumps({"stream": True, **fields}).encode())
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            assert answer.getheader("content-type") == "text/event-stream; charset=utf-8"
            yield Stream(answer)
            answer.close()

    def stream(self, path: str, **fields: Any) -> list[JSON]:
        """The objects of a stream that ends as it should."""
        with self.streaming(path, **fields) as stream:
            objects = list(stream.objects())
            assert stream.done
            return objects

    def metric(self, name: str) -> float:
        status, text, _ = self.ask("GET", "/metrics")
        assert status == 200
        [line] = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        return float(line.split()[1])


class Stream:
    """Server-sent events as they come."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer = answer
        self.comments = 0
        self.done = False

    def objects(self) -> Iterator[JSON]:
        while line := self._answer.readline():
            assert not self.done, "nothing follows [DONE]"
            if line.startswith(b":"):
                self.comments += 1
            elif line == b"data: [DONE]\n":
                self.done = True
            else:
                assert line.startswith(b"data: "), line
                yield json.loads(line[6:])
            assert self._answer.readline() == b"\n", "an empty line ends an event"


def eventually(what: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until something is so; fail if it never is."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


@contextlib.contextmanager
def served(engine: EngineClient, *, keys: Path | None = None, **settings: Any) -> Iterator[Client]:
    """A server over an engine, in a thread of this process."""
    chosen = ServerSettings(key_file=keys, **{"port": 0, **settings})
    listener = listen(chosen.host, chosen.port, keys=keys is not None)
    client = Client(listener.getsockname()[1])
    box: list[uvicorn.Server] = []

    def run() -> None:
        import asyncio

        async def main() -> None:
            client.service = Service(engine, chosen)
            app = create_app(client.service, None if keys is None else ApiKeys(keys))
            box.append(uvicorn.Server(configure(app, chosen)))
            await box[0].serve(sockets=[listener])

        asyncio.run(main())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        eventually(lambda: bool(box) and box[0].started)
        yield client
    finally:
        box[0].should_exit = True
        thread.join()


class Program(Client):
    """`qanat serve`, running."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        super().__init__(port)
        self.process = process

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; exit code, and what was said on stderr since it was ready."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=30)
        return self.process.returncode, said

    def children(self) -> list[int]:
        """Processes that it has started."""
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == self.process.pid:
                    found.append(int(folder.name))
        return found


def ready_port(lines: Iterable[str]) -> int:
    """Where a server says that it listens; what it says before is only told if it fails."""
    before = []
    for line in lines:
        if line.startswith("ready: "):
            return int(line.split("/v1")[0].rpartition(":")[2])
        before.append(line)
    raise AssertionError("it never became ready: " + "".join(before))


@contextlib.contextmanager
def program(*options: str) -> Iterator[Program]:
    """`qanat serve` with the built-in model on a free port, ready."""
    arguments = command("serve", "--port", "0", "--backend", "reference", *options)
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stderr is not None
            yield Program(process, ready_port(process.stderr))
        finally:
            if process.poll() is None:
                process.kill()


def raw(port: int, data: bytes, seconds: float = 10) -> bytes:
    """What comes back for these bytes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(data)
        pieces = []
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(65536):
                pieces.append(piece)
        return b"".join(pieces)
