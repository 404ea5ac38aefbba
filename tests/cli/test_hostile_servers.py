"""`qanat chat --url` against servers that send anything anywhere: a sentence or an answer, never a bug."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qanat.server.remote.address import base_url
from qanat.server.remote.client import RemoteClient
from qanat.server.remote.events import events
from tests.cli.commands import assert_refused, invoke
from tests.cli.other_server import HEAD, OtherServer, event, last, other_server, whole

ODD: list[Any] = [
    *(None, True, 0, -1, 2**63, 10**400, 0.5, float("inf"), float("nan")),
    *("", " ", "x", "\ud800", "\x1b[2J\r\n", "x" * 100_000),
    *([], [1], [None], [[[]]], {}, {"x": 1}, {"x": {"x": []}}),
]
MODELS: Any = {"object": "list", "data": [{"id": "a", "root": "a"}, {"id": "b", "root": "a"}]}
CHUNK: Any = {
    "id": "x",
    "choices": [
        {
            "index": 0,
            "delta": {
                **dict.fromkeys(("role", "content", "refusal", "reasoning", "reasoning_content"), "a"),
                "tool_calls": [{"index": 0, "id": "i", "function": {"name": "f", "arguments": "{}"}}],
            },
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 1},
    },
}
ERROR: Any = {"error": {"message": "no", "code": "context_length_exceeded"}, "message": "no", "detail": "no"}
HEADERS = ["Content-Type", "Content-Encoding", "Transfer-Encoding", "Content-Length", "Retry-After"]
HEADERS += ["Location", "Set-Cookie", "Connection", "X"]
VALUES = [b"", b" ", b"-1", b"9" * 400, b"\xff\xfe", b"\xc3\xa9", b"x" * 50_000, b"gzip, br, zstd", b"a=b; c"]
VALUES += [b"text/event-stream; charset=none", b"chunked", b"identity, chunked", b"http://[", b"\x01", b'"']


@pytest.fixture(scope="module")
def server() -> Iterator[OtherServer]:
    with other_server() as found:
        yield found


@pytest.fixture
def other(server: OtherServer) -> OtherServer:
    """Well-formed, until a test changes it."""
    server.models, server.queued = whole("200 OK", MODELS), []
    server.pieces = [HEAD, event(content="so"), last(), b"data: [DONE]\n\n"]
    return server


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a JSON value another one could stand."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = odd
    return value


def named(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path)) or "all"


def assert_told_or_answered(other: OtherServer, folder: Path, *options: str) -> None:
    """A turn for each queued answer, its figures, and a conversation that can be saved and read again."""
    file, turns = folder / "chat.json", max(len(other.queued), 1)
    turn = f"hi\n/stats\n/save {file}\n/load {file}\n/clear\n"
    result = invoke("chat", "--url", other.url, *options, stdin=turn * turns)
    told = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert result.exit_code == (2 if told else 0), (turns - len(other.queued), told[-1:])
    assert other.queued == []
    for line in told:
        assert len(line) < 2000, line[:200]
        assert line.isprintable(), line
        assert "bug" not in line, line
        assert str(file) not in line, line
    if file.exists():
        json.loads(file.read_bytes())
    else:  # the chat did not begin
        assert len(told) == 1, told


@pytest.mark.parametrize("path", list(places(MODELS)), ids=named)
def test_any_value_in_any_place_of_a_list_of_models(
    other: OtherServer, path: tuple[Any, ...], tmp_path: Path
) -> None:
    for odd in ODD:
        other.models = whole("200 OK", replaced(MODELS, path, odd))
        assert_told_or_answered(other, tmp_path)


@pytest.mark.parametrize("path", list(places(CHUNK)), ids=named)
def test_any_value_in_any_place_of_a_chunk(other: OtherServer, path: tuple[Any, ...], tmp_path: Path) -> None:
    for odd in ODD:
        data = json.dumps(replaced(CHUNK, path, odd)).encode()
        other.queued.append([HEAD, b"data: %b\n\n" % data, last(), b"data: [DONE]\n\n"])
    assert_told_or_answered(other, tmp_path, "-m", "m")


@pytest.mark.parametrize("path", list(places(ERROR)), ids=named)
def test_any_value_in_any_place_of_an_error(
    other: OtherServer, path: tuple[Any, ...], tmp_path: Path
) -> None:
    for odd in ODD:
        data = json.dumps(replaced(ERROR, path, odd)).encode()
        event_ = [HEAD, b"data: %b\n\n" % data]
        other.queued += [event_, [whole("400 No", data)], [whole("503 No", data)]]
    assert_told_or_answered(other, tmp_path, "-m", "m")


@pytest.mark.parametrize("name", HEADERS)
def test_any_value_of_any_header(other: OtherServer, name: str, tmp_path: Path) -> None:
    body = b"".join([event(content="so"), last(), b"data: [DONE]\n\n"])
    for value in VALUES:
        line = name.encode() + b": " + value
        for status in (b"200 OK", b"307 Go", b"429 No", b"503 No"):
            head = b"HTTP/1.1 " + status + b"\r\nContent-Type: text/event-stream\r\n" + line + b"\r\n\r\n"
            other.queued.append([head, body])
    assert_told_or_answered(other, tmp_path, "-m", "m")


def test_no_cookie_is_kept(other: OtherServer, tmp_path: Path) -> None:
    other.heads.clear()
    other.models = whole("200 OK", {"data": [{"id": "a"}]}, "Set-Cookie: a=b; Path=/")
    assert_told_or_answered(other, tmp_path)
    assert len(other.heads) == 2
    assert not any("cookie" in head.lower() for head in other.heads)


@pytest.mark.parametrize(
    "url", ["http://.", "http://.a", "http://a..b", f"http://{'a' * 300}", f"http://x.{'a' * 64}.org/v1"]
)
def test_a_host_that_no_name_server_could_be_asked_for_is_refused(url: str) -> None:
    assert_refused(invoke("chat", "--url", url), "--url", "no host")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTP_PROXY", "foo://proxy"),
        ("HTTP_PROXY", "http://[::"),
        ("HTTP_PROXY", "http://a..b"),
        ("ALL_PROXY", "socks5://127.0.0.1:1"),
        ("SSL_CERT_FILE", "/no/such/file"),
        ("SSL_CERT_FILE", __file__),
    ],
)
def test_an_environment_that_no_connection_can_be_made_with_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    for other_name in ("HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"):
        monkeypatch.delenv(other_name, raising=False)
        monkeypatch.delenv(other_name.lower(), raising=False)
    monkeypatch.setenv(name, value)
    assert_refused(invoke("chat", "--url", "http://no-such-host.invalid"), "connection")


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_a_byte_order_mark_before_the_first_event_is_left_out(other: OtherServer, size: int) -> None:
    stream = b"\xef\xbb\xbfdata: one\n\ndata: \xef\xbb\xbftwo\n\n"
    pieces = (stream[i : i + size] for i in range(0, len(stream), size))
    assert list(events(pieces)) == [b"one", b"\xef\xbb\xbftwo"]
    other.pieces[0] += b"\xef\xbb\xbf"
    assert "".join(piece.text for piece in RemoteClient(base_url(other.url)).chat({})) == "so"
