"""Many streaming clients for a while, some of which leave: what became of each, and how long they waited.

    python -m tests.server.http.load PORT SECONDS

prints how long `/health` took, again and again: a program beside the clients, so that their work is not taken
for the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from assets import ROOT

CHAT = "/v1/chat/completions"
LEAVERS = 0.2


@dataclass
class Outcomes:
    """What became of the requests of a load. Times in seconds."""

    counts: Counter[str] = field(default_factory=Counter)
    """answered, refused (429), left before the first event, left later."""
    errors: list[str] = field(default_factory=list)
    """Whatever should not have been."""
    first: list[float] = field(default_factory=list)
    """From a request to its first event."""
    between: list[float] = field(default_factory=list)
    """From an event to the next."""
    tokens: int = 0
    """Of answers that came whole."""
    took: float = 0.0


async def load(port: int, *, clients: int, seconds: float, seed: int = 1) -> Outcomes:
    """Keep so many clients asking for so long; those that are answered then get their answers to the end."""
    found = Outcomes()
    begin = time.perf_counter()
    await asyncio.gather(
        *(_client(port, random.Random(f"{seed} {i}"), begin + seconds, found) for i in range(clients))
    )
    found.took = time.perf_counter() - begin
    return found


async def _client(port: int, rng: random.Random, end: float, found: Outcomes) -> None:
    while time.perf_counter() < end:
        try:
            pause = await _request(port, rng, found)
            await asyncio.sleep(min(pause, max(end - time.perf_counter(), 0)))
        except Exception as error:  # told by the test, with all others
            found.errors.append(f"{type(error).__name__}: {error}")


async def _request(port: int, rng: random.Random, found: Outcomes) -> float:
    """One request; the seconds after which the server wants to be asked again."""
    leaves = rng.random() < LEAVERS
    in_prefill = leaves and rng.random() < 0.5
    words = rng.choice([3, 10, 30, 100]) if not in_prefill else 900
    body = {
        "messages": [{"role": "user", "content": f"{rng.random()} " + "fox " * words}],
        "max_tokens": 3000 if leaves else rng.randrange(1, 60),
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    data = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        begin = time.perf_counter()
        writer.write(b"POST %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" % CHAT.encode())
        writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
        if in_prefill:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1), rng.random() * 0.1)
            found.counts["left early"] += 1
            return 0
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split()[1])
        if status == 429:
            found.counts["refused"] += 1
            return _retry_after(head)
        assert status == 200, f"status {status}: {await reader.read(300)!r}"
        await _events(reader, found, begin, rng.randrange(1, 30) if leaves else None)
        return 0
    finally:
        writer.close()


async def _events(reader: asyncio.StreamReader, found: Outcomes, begin: float, leave_at: int | None) -> None:
    """Read an answer to its end, or leave after so many events if it has not ended by then."""
    latest, number, tokens, ended = begin, 0, 0, False
    async for line in reader:
        if line == b"data: [DONE]\n":
            found.counts["answered"] += 1
            found.tokens += tokens
            return
        if not line.startswith(b"data: "):
            continue
        item: dict[str, Any] = json.loads(line[6:])
        assert "error" not in item, item["error"]
        now = time.perf_counter()
        (found.between if number else found.first).append(now - latest)
        latest, number = now, number + 1
        if item["usage"] is not None:
            tokens = item["usage"]["completion_tokens"]
        # Events are fewer than tokens: a model may say nothing for long, and then be at its end.
        ended = ended or any(choice["finish_reason"] for choice in item["choices"])
        if number == leave_at and not ended:
            found.counts["left late"] += 1
            return
    raise AssertionError("the stream ended without [DONE] and without an error")


def _retry_after(head: bytes) -> float:
    """Seconds after which who was sent away may ask again; whoever asks earlier is no client."""
    lines = [line.lower().partition(b":") for line in head.split(b"\r\n")]
    told = [int(value) for name, _, value in lines if name == b"retry-after"]
    assert len(told) == 1, "429 says when to come again"
    return told[0]


def percentile(values: list[float], share: float) -> float:
    """The value that this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


NOTHING = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Nothing(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
server = HTTPServer(("127.0.0.1", 0), Nothing)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextlib.contextmanager
def nothing_served() -> Iterator[int]:
    """The port of a server that does nothing: how long it takes is what the machine takes for itself."""
    command = [sys.executable, "-c", NOTHING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


@contextlib.contextmanager
def health_watched(port: int, seconds: float) -> Iterator[list[float]]:
    """A list that holds, after the block, how long each question for `/health` took."""
    times: list[float] = []
    command = [sys.executable, "-m", "tests.server.http.load", str(port), str(seconds)]
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}:{ROOT / 'tests'}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        yield times
        assert process.stdout is not None
        times += json.load(process.stdout)


def _watch_health(port: int, seconds: float) -> list[float]:
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
            connection.request("GET", "/health")
            assert connection.getresponse().status == 200
        times.append(time.perf_counter() - begin)
        time.sleep(0.02)
    return times


if __name__ == "__main__":
    print(json.dumps(_watch_health(int(sys.argv[1]), float(sys.argv[2]))))
