"""Every answer carries an id, and the log has a line for every request: what it was, never what it said."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import re
import socket
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from qanat.server.errors import UnavailableError
from qanat.server.http import access_log, body, protocol
from qanat.server.http.access_log import Entry, as_text
from tests.cli.commands import command, environment
from tests.server.bodies import ask
from tests.server.http.fakes import FakeEngine
from tests.server.http.serving import Client, Program, eventually, raw, ready_port, served

CHAT = "/v1/chat/completions"


def test_every_answer_has_the_id_of_its_request(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("first\n")
    key = {"X-Api-Key": "first"}
    with served(FakeEngine(), keys=tmp_path / "keys", most_body=1000) as client:
        seen = set()
        for method, path, body, headers, status in (
            ("GET", "/health", None, {}, 200),
            ("GET", "/v1/models", None, {}, 401),
            ("GET", "/v1/models", None, {**key, "Origin": "https://evil.example"}, 403),
            ("GET", "/nowhere", None, key, 404),
            ("GET", CHAT, None, key, 405),
            ("POST", CHAT, b"x" * 1001, key, 413),
            ("POST", CHAT, {"messages": ask()}, key, 200),
            ("POST", CHAT, {"messages": ask(), "stream": True}, key, 200),
        ):
            got, _, told = client.ask(method, path, body, {**headers, "X-Request-Id": "mine-1"})
            assert (got, told["x-request-id"]) == (status, "mine-1")
            seen.add(client.ask(method, path, body, headers)[2]["x-request-id"])
        assert len(seen) == 8


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "a\tb", "{}", "\xe4", 'a"b'])
def test_an_id_that_is_not_fit_for_a_log_is_replaced(given: str) -> None:
    with served(FakeEngine()) as client:
        told = client.ask("GET", "/health", headers={"X-Request-Id": given})[2]["x-request-id"]
        assert told.startswith("req-")
        assert told != given


class Lines:
    """What a server wrote, which is parsed when it has so many lines."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[str] = []
        monkeypatch.setattr(access_log.sys, "stdout", self)

    def write(self, text: str) -> None:
        assert text.endswith("\n")
        self.lines.append(text)

    def flush(self) -> None:
        pass

    def read(self, count: int) -> list[dict[str, Any]]:
        eventually(lambda: len(self.lines) >= count)
        found = [json.loads(line) for line in self.lines]
        assert len(found) == count
        self.lines.clear()
        return found


@pytest.mark.parametrize("stream", [False, True])
def test_a_line_says_how_an_answer_went(monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    log = Lines(monkeypatch)
    with served(FakeEngine(words=["secret"], pause=0.05), log="json") as client:
        body = {"messages": ask("secret"), "stream": stream}
        assert client.ask("POST", CHAT, body, {"X-Request-Id": "mine"})[0] == 200
        [line] = log.read(1)
    assert line.pop("seconds") >= 0.05
    assert line.pop("time").endswith("Z")
    assert line == {
        "id": "mine",
        "client": "127.0.0.1",
        "method": "POST",
        "path": CHAT,
        "status": 200,
        "stream": stream,
        "prompt_tokens": 1,
        "cached_tokens": 0,
        "completion_tokens": 1,
    }


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (UnavailableError("it died", "engine_dead"), "engine_dead"),
        (ZeroDivisionError("secret"), "ZeroDivisionError"),
    ],
)
def test_a_line_says_why_an_answer_failed(
    monkeypatch: pytest.MonkeyPatch, error: Exception, word: str
) -> None:
    log = Lines(monkeypatch)
    with served(FakeEngine(error=error), log="json") as client:
        for stream, status in ((False, 500 if word[0] == "Z" else 503), (True, 200)):
            client.ask("POST", CHAT, {"messages": ask(), "stream": stream})
            [line] = log.read(1)
            assert (line["status"], line["error"]) == (status, word)
        client.ask("POST", "/tokenize", {"content": "x"})
        assert log.read(1)[0]["error"] == word
        client.ask("POST", CHAT, {"messages": 5})
        assert log.read(1)[0]["error"] == "invalid_request_error"


def test_who_went_away_is_noted_with_499(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Lines(monkeypatch)
    with served(FakeEngine(words=["a"] * 100, pause=0.05), log="json") as client:
        with client.streaming(CHAT, messages=ask()) as stream:
            next(stream.objects())
        [line] = log.read(1)
    assert (line["status"], line["stream"]) == (499, True)
    assert "completion_tokens" not in line


POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine\r\n"


@pytest.mark.parametrize(
    ("data", "status", "asked"),
    [
        (b"no request\r\n\r\n", 400, None),
        (b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, None),
        (b"GET /health HTTP/1.1\r\nX: " + b"x" * 50_000 + b"\r\n\r\n", 431, None),
        (b"GET /health HTT", 408, None),
        (POST + b"Content-Length: x\r\n\r\n", 400, None),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nno length\r\n", 400, ("POST", CHAT)),
    ],
    ids=["no request", "two hosts", "long head", "slow head", "length", "chunks"],
)
@pytest.mark.parametrize("slow", [False, True])
def test_what_the_protocol_refuses_has_an_id_and_one_line(
    monkeypatch: pytest.MonkeyPatch, data: bytes, status: int, asked: tuple[str, str] | None, slow: bool
) -> None:
    log = Lines(monkeypatch)
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(body, "LINGER", 0.05)
    with served(FakeEngine(), log="json") as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection:
            head, separator, rest = data.partition(b"\r\n\r\n")
            for piece in (head + separator, rest) if slow else (data,):
                with contextlib.suppress(ConnectionError):
                    connection.sendall(piece)
                time.sleep(0.05)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        told = http.client.parse_headers(io.BytesIO(answer.partition(b"\r\n")[2]))["x-request-id"]
        assert int(answer.split()[1]) == status
        [line] = log.read(1)
        assert (line["status"], line["id"], line["client"]) == (status, told, "127.0.0.1")
        assert (told == "mine") == (asked is not None)
        assert (line.get("method"), line.get("path")) == (asked or (None, None))
        path = asked[1] if asked else "other"
        assert client.metric(f'qanat_http_answers_total{{path="{path}",status="{status}"}}') == 1


HOSTILE = [
    b"/a%0ab",
    b"/%1b[31m",
    b"/\\x",
    b"/%22,%22status%22:200",
    b"/" + b"x" * 20_000,
    b"/%e2%80%a8",
    b"/%ff",
    b"/x%20200%200.001s%20id=forged",
    b"/x%22%20200%200.001s%20id=forged",
    b"/x%5c%22%20200",
    b"/%20",
    b"/'%20'",
    b"/%7f",
]
WORD = re.compile(r'(?P<name>[a-z_]+=)?(?:"(?P<text>(?:[^"\\]|\\.)*)"|(?P<plain>[^" ]+))(?: |$)')


def taken_apart(line: str) -> list[str]:
    """A line of `--log text` as fields: what stands between blanks, or in the quotes of JSON."""
    found, at = [], 0
    while at < len(line):
        match = WORD.match(line, at)
        assert match is not None, line[at:]
        text = match["plain"] if match["text"] is None else json.loads(f'"{match["text"]}"')
        found.append((match["name"] or "") + text)
        at = match.end()
    return found


@pytest.mark.parametrize("path", [unquote(path.decode()) for path in HOSTILE] + ["-", "id=x", None, ""])
def test_a_line_for_people_can_be_taken_apart(path: str | None) -> None:
    entry = Entry("mine", "::1", "POST", path, 0.0, 404, 1.25, error="invalid_request_error")
    date, *fields = taken_apart(as_text(entry))
    assert date == "1970-01-01T00:00:00.000Z"
    assert fields == [
        *("::1", "POST", "-" if path is None else path, "404", "1.250s"),
        *("id=mine", "error=invalid_request_error"),
    ]
    assert as_text(entry).count(" - ") == (path is None)


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_path_makes_a_line_of_its_own_or_a_long_one(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    log = Lines(monkeypatch)
    with served(FakeEngine(), log=form) as client:
        for target in HOSTILE:
            raw(client.port, b"GET %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % target)
            eventually(lambda: len(log.lines) == 1)
            [line] = log.lines
            log.lines.clear()
            assert line[:-1].isprintable(), line
            assert line.isascii()
            assert len(line) < 1500
            if form == "json":
                assert json.loads(line)["status"] == 404


def test_the_line_for_people() -> None:
    entry = Entry("mine", "127.0.0.1", "POST", CHAT, 0.0, 200, 1.25, stream=True, completion_tokens=7)
    expected = (
        f"1970-01-01T00:00:00.000Z 127.0.0.1 POST {CHAT} 200 1.250s id=mine stream=True completion_tokens=7"
    )
    assert as_text(entry) == expected


def test_the_program_logs_where_it_is_told_to_and_goes_on_when_nobody_reads() -> None:
    arguments = command("serve", "--port", "0", "--backend", "reference", "--log", "json")
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdout=pipe, stderr=pipe, text=True, env=environment()) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        client: Client = Program(process, ready_port(process.stderr))
        usage = client.post(CHAT, messages=ask("A secret."), max_tokens=3)["usage"]
        told = json.loads(process.stdout.readline())
        assert (told["prompt_tokens"], told["completion_tokens"]) == (usage["prompt_tokens"], 3)
        assert "secret" not in json.dumps(told)
        process.stdout.close()
        for _ in range(3):
            assert client.post(CHAT, messages=ask(), max_tokens=3)
        process.terminate()
        said = process.stderr.read()
        assert (process.wait(20), "Traceback" in said) == (0, False), said
