"""Several requests on one connection, and several connections: order, number, and who has gone."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Any

import pytest

from tests.server.bodies import ask
from tests.server.http.fakes import FakeEngine
from tests.server.http.serving import eventually, raw, served

CHAT = "/v1/chat/completions"


def answers(data: bytes) -> list[tuple[int, Any]]:
    """Answers that came one behind the other, with their bodies' lengths."""
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        [length] = [
            int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        ]
        found.append((int(head.split()[1]), json.loads(rest[:length])))
        data = rest[length:]
    return found


def test_bad_and_good_requests_sent_at_once_are_answered_in_their_order() -> None:
    good = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    stranger = b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    text = b'{"content": '
    broken = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text)
    lost = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served(FakeEngine()) as client:
        data = good + stranger + broken + good + lost + good + b"no request\r\n\r\n" + good
        assert [status for status, _ in answers(raw(client.port, data))] == [
            200,
            403,
            400,
            200,
            404,
            200,
            400,
        ]


@pytest.mark.parametrize("size", [10, 200_000])
@pytest.mark.parametrize("stream", [False, True])
def test_who_has_sent_more_requests_ahead_and_goes_away_is_noticed(stream: bool, size: int) -> None:
    engine = FakeEngine(words=["word"], pause=30.0)
    with served(engine) as client, socket.socket() as connection:
        connection.connect(("127.0.0.1", client.port))
        text = json.dumps({"messages": ask(), "stream": stream}).encode()
        one = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
        data = one % (CHAT.encode(), len(text), text)
        connection.sendall(data)
        eventually(lambda: engine.begun == 1)
        connection.sendall(data + b"x" * size)
        time.sleep(0.05)
        assert engine.left == 0
        connection.close()
        eventually(lambda: engine.left == 1, seconds=3)
        assert engine.begun == 1


def test_of_far_too_much_that_was_sent_ahead_only_the_first_is_answered() -> None:
    text = json.dumps({"messages": ask(), "max_tokens": 30, "ignore_eos": True}).encode()
    first = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
    data = (
        first % (CHAT.encode(), len(text), text) + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 9000
    )
    with served(FakeEngine(pause=0.2)) as client:
        [(status, answer)] = answers(raw(client.port, data))
    assert (status, answer["object"]) == (200, "chat.completion")


def test_connections_beyond_their_number_are_told_to_come_again() -> None:
    with served(FakeEngine(), most_connections=3) as client, contextlib.ExitStack() as several:
        for _ in range(3):
            kept = several.enter_context(contextlib.closing(client.connect()))
            kept.request("GET", "/health")
            assert kept.getresponse().read()
        for body_ in (None, b"x" * 300_000):
            status, answer, headers = client.ask("POST", CHAT, body_)
            assert (status, answer["error"]["code"]) == (503, "too_many_connections")
            assert headers["x-request-id"]
            assert (headers["retry-after"], headers["connection"]) == ("1", "close")
        kept.request("GET", "/health")
        assert kept.getresponse().status == 200, "who was there already is answered"
        several.close()
        eventually(lambda: client.ask("GET", "/health")[0] == 200)
