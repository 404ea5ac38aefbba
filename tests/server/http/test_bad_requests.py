"""More than a thousand bad requests: each gets the right 4xx and a message, and nothing else changes."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qanat.server.engine_client import EngineOptions
from qanat.server.http import body, protocol
from qanat.server.local_engine import LocalEngine
from tests.server.bodies import ask
from tests.server.http import bad_bodies, bad_heads
from tests.server.http.bad_bodies import CHAT, MOST_BODY, Bad
from tests.server.http.fakes import FakeEngine
from tests.server.http.serving import Client, eventually, raw, served

OPEN: list[Callable[[], Iterator[Bad]]] = [
    *(bad_bodies.fields, bad_bodies.messages, bad_bodies.broken, bad_bodies.meaning),
    *(bad_heads.paths, bad_heads.strangers, bad_heads.no_http, bad_heads.sizes),
]
"""Kinds of bad requests against a server without keys."""


@pytest.fixture(scope="module")
def model() -> Iterator[LocalEngine]:
    engine = LocalEngine(EngineOptions(backend="reference", debug=True))
    yield engine
    assert engine.llm.idle
    engine.llm.check_integrity()


@pytest.fixture(scope="module")
def server(model: LocalEngine) -> Iterator[Client]:
    with served(model, most_body=MOST_BODY, origins=("https://page.example",)) as client:
        yield client


def slowly(port: int, data: bytes) -> bytes:
    """Send it byte by byte, and more of it for as long as it is taken."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        answered = threading.Event()

        def drip() -> None:
            with contextlib.suppress(OSError):
                connection.sendall(data)
                while not answered.is_set():
                    connection.sendall(b" ")
                    time.sleep(0.02)

        sender = threading.Thread(target=drip)
        sender.start()
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
        answered.set()
        sender.join()
        return b"".join(pieces)


def wrong(client: Client, bad: Bad) -> str | None:
    """What is not right about the answer to a bad request; None if all is."""
    answer = (slowly if bad.drips else raw)(client.port, bad.data)
    head, _, text = answer.partition(b"\r\n\r\n")
    status = int(head.split()[1]) if head.startswith(b"HTTP/1.1 ") else None
    if status != bad.status:
        return f"status {status}: {text[:200]!r}"
    headers = {
        name.lower(): value for name, _, value in (line.partition(b": ") for line in head.split(b"\r\n"))
    }
    try:
        error = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return f"no error object: {text[:200]!r}"
    message = error["message"]
    for good, what in (
        (len(headers.get(b"x-request-id", b"")) > 8, "no id"),
        (headers[b"content-type"] == b"application/json", "content type"),
        (set(error) == {"message", "type", "param", "code"}, "keys"),
        (error["type"] == "invalid_request_error", "type"),
        (bad.word in message, f"message without {bad.word!r}"),
        (len(message) < 400 and message.isprintable(), "a message that is no line"),
        (bad.param in (None, error["param"]), "param"),
        (bad.code in (None, error["code"]), "code"),
        (status != 405 or b"allow" in headers, "no Allow"),
        (status != 401 or headers.get(b"www-authenticate") == b"Bearer", "no WWW-Authenticate"),
    ):
        if not good:
            return f"{what}: {error}"
    return None


def assert_each_is_refused(client: Client, requests: Iterator[Bad], **headers: str) -> None:
    question = {"messages": ask("Who are you?"), "max_tokens": 8, "temperature": 0}
    _, before, _ = client.ask("POST", CHAT, question, headers)
    problems = []
    for bad in requests:
        problem = wrong(client, bad)
        if problem is not None:
            problems.append(f"{bad.data[:300]!r} wants {bad.status} {bad.param}: {problem}")
    assert not problems, f"{len(problems)}:\n" + "\n".join(problems[:40])
    status, after, _ = client.ask("POST", CHAT, question, headers)
    assert (status, after["choices"]) == (200, before["choices"]), "it answers as before"
    assert client.service is not None
    eventually(lambda: client.service.requests.inside == 0)  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", OPEN, ids=lambda kind: str(kind.__name__))
def test_each_gets_the_right_status_and_a_message(server: Client, kind: Callable[[], Iterator[Bad]]) -> None:
    assert_each_is_refused(server, kind())


def test_who_has_no_key_gets_the_right_status_and_a_message(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# ours\nfirst\nsecond\n")
    with served(FakeEngine(), keys=tmp_path / "keys") as client:
        assert_each_is_refused(client, bad_heads.keyless(), Authorization="Bearer first")


def test_who_is_too_slow_gets_the_right_status_and_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.1)
    monkeypatch.setattr(body, "LINGER", 0.05)
    with served(FakeEngine(), stall=0.1, most_body=MOST_BODY) as client:
        assert_each_is_refused(client, bad_heads.slow())
        assert_each_is_refused(client, bad_heads.promised())


def test_they_differ() -> None:
    kinds = [*OPEN, bad_heads.keyless, bad_heads.slow, bad_heads.promised]
    assert len({bad.data for kind in kinds for bad in kind()}) > 1500
