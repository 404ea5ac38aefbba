"""Bounds of size, number and time, and what becomes of clients that go away or do not listen."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import Any

import pytest

from qanat.server import local_engine
from qanat.server.engine_client import EngineOptions
from qanat.server.errors import UnavailableError
from qanat.server.http import body, protocol
from qanat.server.local_engine import LocalEngine
from tests.server.bodies import ask
from tests.server.http.fakes import FakeEngine
from tests.server.http.serving import eventually, raw, served
from tests.server.http.storm import storm

CHAT = "/v1/chat/completions"
SLOW: dict[str, Any] = {"words": ["word"], "pause": 30.0}


def head(length: int | None = None, path: str = CHAT) -> bytes:
    told = b"Transfer-Encoding: chunked" if length is None else b"Content-Length: %d" % length
    return b"POST %b HTTP/1.1\r\nHost: localhost\r\n%b\r\n\r\n" % (path.encode(), told)


def parsed(answer: bytes) -> tuple[int, Any]:
    before, _, text = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in before.lower()
    return int(before.split()[1]), json.loads(text)["error"]["message"]


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/tokenize", "/detokenize", "/apply-template"])
def test_a_body_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(body, "LINGER", 0.1)
    with served(FakeEngine(), most_body=1000) as client:
        for data in (
            head(10**12, path),  # which never comes
            head(1001, path) + b"x" * 1001,
            head(None, path) + b"3e9\r\n" + b"x" * 1001 + b"\r\n",
        ):
            status, message = parsed(raw(client.port, data))
            assert (status, "1000 bytes" in message) == (413, True)
        assert client.ask("POST", path, b"x" * 1000)[0] == 400  # it was read


def test_who_sends_too_much_reads_why() -> None:
    """And does not find the connection reset while it is still sending."""
    with served(FakeEngine(), most_body=1000) as client:
        for _ in range(3):
            assert (
                client.refused(413, CHAT, messages=ask("x" * 30_000_000))["type"] == "invalid_request_error"
            )


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "LINGER", 0.1)
    with served(FakeEngine(), stall=0.2) as client:
        assert parsed(raw(client.port, head(10) + b"{"))[0] == 408
        assert client.service is not None
        assert client.service.requests.inside == 0


def test_a_head_that_is_too_long_or_no_http_gets_an_error_object() -> None:
    with served(FakeEngine()) as client:
        start = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
        for data in (
            start + b"X: " + b"x" * 100_000,
            start + b"X: y\r\n" * 30_000,
            b"GET /" + b"x" * 100_000,
        ):
            assert parsed(raw(client.port, data))[0] == 431
        for data in (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET /health\r\n\r\n", start + b"a b: c\r\n\r\n"):
            assert parsed(raw(client.port, data))[0] == 400
        assert client.ask("GET", "/health")[0] == 200


@pytest.mark.parametrize("before", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, before: bytes) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    with served(FakeEngine()) as client, socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.settimeout(3)
        connection.sendall(before)
        begin, closed = time.monotonic(), False
        while not closed and time.monotonic() < begin + 3:
            try:
                connection.sendall(b"GET /"[:1] if not before else b"X")
                time.sleep(0.05)
                connection.setblocking(False)
                try:
                    closed = connection.recv(4096) == b""
                except BlockingIOError:
                    pass
                finally:
                    connection.setblocking(True)
            except ConnectionError:
                closed = True
        assert closed


def test_when_all_places_are_taken_the_next_is_told_to_come_again() -> None:
    engine = FakeEngine(**SLOW)
    with served(engine, most_requests=2) as client:
        with client.streaming(CHAT, messages=ask()), client.streaming(CHAT, messages=ask()):
            for stream in (False, True):
                status, answer, headers = client.ask("POST", CHAT, {"messages": ask(), "stream": stream})
                assert (status, answer["error"]["code"], headers["retry-after"]) == (429, "queue_full", "1")
        eventually(lambda: engine.left == 2)
        with client.streaming(CHAT, messages=ask()):
            pass
        eventually(lambda: engine.left == 3)


@pytest.mark.parametrize("stream", [False, True])
def test_more_replies_than_may_wait_are_refused_before_the_stream_begins(stream: bool) -> None:
    engine = LocalEngine(EngineOptions(backend="reference", max_batch=1, max_waiting=1, debug=True))
    with served(engine) as client:
        status, answer, _ = client.ask("POST", CHAT, {"messages": ask(), "n": 3, "stream": stream})
        assert status == 400  # to come again later would not help
        assert "ask for fewer at a time" in answer["error"]["message"]
        assert client.ask("POST", CHAT, {"messages": ask(), "n": 2})[0] == 200
    assert engine.llm.idle


def test_while_nothing_comes_a_stream_is_kept_alive() -> None:
    with (
        served(FakeEngine(words=["a"], pause=0.5), keep_alive=0.1) as client,
        client.streaming(CHAT, messages=ask()) as stream,
    ):
        objects = list(stream.objects())
        assert stream.done
        assert 1 <= stream.comments <= 10
        assert objects[1]["choices"][0]["delta"] == {"content": "a"}


@pytest.mark.parametrize(
    ("engine", "stream"),
    [
        (FakeEngine(queueing=30), False),  # it is rendered, or waits in the queue
        (FakeEngine(queueing=30), True),
        (FakeEngine(**SLOW), False),  # its prompt is read
        (FakeEngine(**SLOW), True),
        (FakeEngine(words=["word"] * 10_000, pause=0.005), False),  # it is answered
        (FakeEngine(words=["word"] * 10_000, pause=0.005), True),
    ],
    ids=range(6),
)
def test_whoever_goes_away_ends_the_request(engine: FakeEngine, stream: bool) -> None:
    with served(engine) as client:
        connection = client.connect()
        connection.request("POST", CHAT, json.dumps({"messages": ask(), "stream": stream}))
        eventually(lambda: engine.begun == 1)
        time.sleep(0.05)
        assert engine.left == 0
        connection.close()
        eventually(lambda: engine.left == 1, seconds=3)
        assert client.service is not None
        eventually(lambda: client.service.requests.inside == 0)  # type: ignore[union-attr]
        assert 'status="499"' in client.ask("GET", "/metrics")[1]


def test_whoever_does_not_read_ends_the_request() -> None:
    engine = FakeEngine(words=["word" * 10_000] * 1000)
    with served(engine, stall=0.3) as client, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", client.port))
        data = json.dumps({"messages": ask(), "stream": True}).encode()
        connection.sendall(head(len(data)) + data)
        eventually(lambda: engine.left == 1)


def test_a_request_whose_time_is_up_is_told_so() -> None:
    engine = LocalEngine(EngineOptions(backend="reference", debug=True))
    fields = {"messages": ask(), "ignore_eos": True, "max_tokens": 4000}
    with served(engine, request_timeout=0.1) as client:
        assert client.refused(408, CHAT, **fields)["code"] == "timeout"
        with client.streaming(CHAT, **fields) as stream:
            *_, last = stream.objects()
            assert (last["error"]["code"], stream.done) == ("timeout", False)
    assert engine.llm.idle


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (UnavailableError("it died", "engine_dead"), 503, "engine_dead"),
        (ZeroDivisionError("secret"), 500, None),
    ],
)
def test_a_failure_of_the_engine_is_an_error_or_the_last_event(
    error: Exception, status: int, code: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    with served(FakeEngine(error=error)) as client:
        assert client.refused(status, CHAT, messages=ask())["code"] == code
        with client.streaming(CHAT, messages=ask()) as stream:
            *_, last = stream.objects()
            assert (last["error"]["code"], stream.done) == (code, False)
            assert "secret" not in json.dumps(last)
    assert ("ZeroDivisionError: secret" in capfd.readouterr().err) == (code is None)


@pytest.mark.parametrize("state", ["loading", "dead"])
def test_health_and_figures_tell_that_nothing_is_answered(state: str) -> None:
    with served(FakeEngine(state=state, error=UnavailableError("no", state))) as client:
        status, answer, _ = client.ask("GET", "/health")
        assert (status, answer) == (503, {"status": state})
        assert client.metric("qanat_up") == 0
        status, answer, headers = client.ask("POST", "/tokenize", {"content": "x"})
        assert (status, answer["error"]["type"], headers["retry-after"]) == (503, "server_error", "1")


def test_others_are_answered_while_a_prompt_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    original, begun, go_on = local_engine.prepare_generations, threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> Any:
        begun.set()
        assert go_on.wait(5), "nobody else was answered"
        return original(*arguments)

    monkeypatch.setattr(local_engine, "prepare_generations", slowly)
    engine = LocalEngine(EngineOptions(backend="reference", debug=True))
    with served(engine) as client, contextlib.closing(client.connect()) as connection:
        connection.request("POST", CHAT, json.dumps({"messages": ask()}))
        assert begun.wait(5)
        assert client.ask("GET", "/health")[0] == 200
        go_on.set()
        assert connection.getresponse().status == 200


def test_questions_beyond_their_number_are_told_to_come_again() -> None:
    with served(FakeEngine(), most_questions=0) as client:
        assert client.refused(429, "/tokenize", content="x")["code"] == "queue_full"


def test_a_storm_of_leavers_leaves_every_slot_and_page_free() -> None:
    engine = LocalEngine(EngineOptions(backend="reference", max_batch=4, max_waiting=40, debug=True))
    with served(engine) as client:
        storm(client)
        eventually(lambda: engine.llm.idle)
        eventually(lambda: client.metric("qanat_requests_inside") == 0)
    engine.llm.check_integrity()
