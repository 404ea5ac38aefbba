"""`qanat chat --url`: what goes to a server, what comes back, and that no server can do harm."""

from __future__ import annotations

import json
import signal
import subprocess
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qanat.cli.remote_model import RemoteOptions, open_remote
from qanat.cli.sampling import SETTINGS
from qanat.errors import QanatError
from qanat.server.chat_request import read_chat_request
from qanat.server.key_file import check_key
from qanat.server.remote.address import base_url, is_private
from qanat.server.remote.client import RemoteClient
from qanat.server.remote.errors import RemoteError
from qanat.server.remote.events import MOST_LINE, events
from tests.cli.commands import assert_refused, command, environment, invoke, take_interrupts
from tests.cli.other_server import HEAD, OtherServer, chunk, event, last, other_server, whole
from tests.server.http.serving import program


@pytest.fixture
def other() -> Iterator[OtherServer]:
    with other_server() as server:
        yield server


def say(other: OtherServer, *options: str, stdin: str = "hi\n") -> Any:
    return invoke("chat", "--url", other.url, *options, stdin=stdin)


# -- what is asked ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://localhost:8000/", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
        ("https://example.org/openai/v1", "https://example.org/openai/v1"),
        ("https://example.org/v1beta/openai/", "https://example.org/v1beta/openai"),
        ("https://example.org/llm", "https://example.org/llm/v1"),
        ("http://[::1]:8000/v1/chat/completions", "http://[::1]:8000/v1"),
    ],
)
def test_a_base_url_is_good_with_or_without_its_version(url: str, base: str) -> None:
    assert base_url(url) == base


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "", "ftp://example.org", "http://", "http://a:b@example.org", "http://example.org?x=1",
     "http://example.org/#x", "http://example.org:port", "http://ex ample.org", "http://[::1"],
)  # fmt: skip
def test_what_is_no_base_url_is_refused(url: str) -> None:
    assert_refused(invoke("chat", "--url", url), "--url")


def test_a_conversation_its_settings_and_the_wish_to_think_are_sent(other: OtherServer) -> None:
    result = say(
        other, "--system", "Be brief.", "--top-k", "9", "--stop", "x", "--logit-bias", "5=-1", "--seed", "3",
        "--no-thinking", stdin="hi\n/set max_tokens 7\n/set temperature 0.5\nagain\n",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "hello\nhello\n"
    first, second = other.bodies
    assert first == {
        "model": "theirs",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "top_k": 9,
        "stop": ["x"],
        "logit_bias": {"5": -1.0},
        "seed": 3,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert second["max_tokens"] == 7
    assert second["temperature"] == 0.5
    assert second["messages"][2:] == [
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "again"},
    ]


def test_every_setting_of_a_chat_has_a_field_that_our_server_knows(other: OtherServer) -> None:
    values = {
        "logit_bias": "5=1",
        "stop": "x",
        "ignore_eos": "on",
        "seed": "3",
        "top_k": "5",
        "max_tokens": "9",
    }
    lines = [f"/set {name} {values.get(name, '1')}" for name in SETTINGS]
    result = say(other, "--thinking", stdin="\n".join([*lines, "hi"]))
    assert result.exit_code == 0, result.stderr
    assert set(SETTINGS) <= set(other.bodies[0])
    read_chat_request(other.bodies[0])


def test_greedy_is_temperature_zero(other: OtherServer) -> None:
    say(other, "--greedy")
    assert other.bodies[0]["temperature"] == 0


def test_thoughts_are_shown_and_not_sent_back(other: OtherServer, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    for name in ("reasoning_content", "reasoning"):
        other.pieces = [HEAD, event(**{name: "hm"}), event(content="yes"), last(), b"data: [DONE]\n\n"]
        result = say(other, stdin=f"hi\nagain\n/save {file}\n")
        assert result.stdout == "yes\nyes\n"
        assert "hm\n" in result.stderr
        assert other.bodies[-1]["messages"][1] == {"role": "assistant", "content": "yes"}
        saved = json.loads(file.read_text())
        assert saved["model"] == "theirs"
        assert saved["messages"][1] == {"role": "assistant", "content": "yes", "reasoning_content": "hm"}


def test_the_only_model_is_taken_and_among_several_one_must_be_named(other: OtherServer) -> None:
    other.models = whole("200 OK", {"data": [{"id": "a", "root": "a"}, {"id": "b", "root": "a"}]})
    assert say(other).exit_code == 0
    assert other.bodies[-1]["model"] == "a"
    other.models = whole("200 OK", {"data": [{"id": "a"}, {"id": "b"}]})
    assert_refused(say(other), "several", "-m", "a, b")
    assert say(other, "-m", "b").exit_code == 0
    assert other.bodies[-1]["model"] == "b"
    other.models = whole("404 Not Found", b"no")
    assert say(other, "-m", "pocket").exit_code == 0  # also where it is the default's name
    assert other.bodies[-1]["model"] == "pocket"
    for wrong in ({}, [], {"data": 1}, {"data": []}, {"data": [3, {"id": 4}, {"id": " "}]}):
        other.models = whole("200 OK", wrong)
        assert_refused(say(other), "-m")


def test_a_key_comes_from_the_environment_or_a_file(
    other: OtherServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(other)
    assert "authorization" not in other.heads[-1].lower()
    monkeypatch.setenv("THE_KEY", " s3cret ")
    say(other, "--api-key-env", "THE_KEY")
    assert "authorization: bearer s3cret\r\n" in other.heads[-1].lower()
    file = tmp_path / "keys"
    for before in (b"# mine\n\n", b"  # mine\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf# mine\r\n\t"):
        file.write_bytes(before + b"from-file\nanother\n")
        other.heads.clear()
        say(other, "--api-key-file", str(file))
        assert "authorization: bearer from-file\r\n" in other.heads[-1].lower()


def test_a_key_that_is_none_is_refused_and_never_shown(
    other: OtherServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAD", "two words\r\nx: y")
    monkeypatch.setenv("EMPTY", " ")
    monkeypatch.setenv("GOOD", "x")
    assert_refused(say(other, "--api-key-env", "NO_SUCH"), "NO_SUCH")
    assert_refused(say(other, "--api-key-env", "EMPTY"), "no key")
    bad = say(other, "--api-key-env", "BAD")
    assert_refused(bad, "--api-key-env BAD")
    assert "two words" not in bad.stderr
    assert_refused(say(other, "--api-key-file", str(tmp_path / "none")), "none")
    (tmp_path / "keys").write_text("# mine\n\n two words\nfine\n")
    assert_refused(say(other, "--api-key-file", str(tmp_path / "keys")), "keys: line 3", "no blanks")
    assert_refused(say(other, "--api-key-file", str(tmp_path), "--api-key-env", "GOOD"), "choose one")
    assert_refused(invoke("chat", "--api-key-env", "GOOD"), "--url")
    with pytest.raises(QanatError):
        check_key("ключ", "it")


def test_a_key_that_would_be_readable_on_the_way_is_remarked_upon(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_private("https://example.org/v1")
    assert is_private("http://127.0.0.9:1/v1")
    assert is_private("http://[::1]/v1")
    assert not is_private("http://127.example.org/v1")
    assert not is_private("http://10.0.0.1/v1")
    monkeypatch.setenv("THE_KEY", "s3cret")
    for url, remarks in (("http://example.org", 1), ("https://example.org", 0), ("http://localhost:1", 0)):
        open_remote(RemoteOptions(url, api_key_env="THE_KEY"), "m")
        assert capsys.readouterr().err.count("unencrypted") == remarks


@pytest.mark.parametrize(
    "option",
    [("--weights", "auto"), ("--backend", "cpu"), ("--threads", "2"), ("--context", "99"),
     ("--memory", "1GB"), ("--revision", "x"), ("--offline",)],
    ids=lambda option: option[0],
)  # fmt: skip
def test_options_of_a_model_on_this_machine_are_refused(other: OtherServer, option: tuple[str, ...]) -> None:
    assert_refused(say(other, *option), option[0] if option[0] != "--context" else "--max-model-len")
    assert other.bodies == []


def test_a_number_that_json_has_not_is_refused(other: OtherServer) -> None:
    assert_refused(say(other, "--temperature", "nan"), "temperature")
    result = say(other, stdin="/set top_p inf\nhi\n")
    assert result.exit_code == 2
    assert "top_p" in result.stderr
    assert result.stdout == "hello\n"


# -- what comes back ----------------------------------------------------------------------------------


def with_header(line: bytes) -> bytes:
    return HEAD.replace(b"\r\n\r\n", b"\r\n%b\r\n\r\n" % line)


REFUSALS = {
    "401": (whole("401 No", {"error": {"message": "no key"}}), ["wants a key", "--api-key-env"]),
    "404": (whole("404 Not Found", {"error": {"message": "no model 'x'"}}), ["404", "no model 'x'"]),
    "404 of no API": (whole("404 Not Found", b"<html>"), ["nothing at http://", "OpenAI"]),
    "429": (whole("429 Busy", {"error": {"message": "queue"}}, "Retry-After: 7"), ["busy", "in 7 s: queue"]),
    "429 until a date": (whole("429 Busy", {}, "Retry-After: Wed, 21 Oct"), ["after Wed, 21 Oct"]),
    "500": (whole("500 Oops", b"\xff\x00"), ["failed (500)"]),
    "503": (whole("503 No", {"error": "loading", "x": 1}, "Retry-After: 1"), ["503", "in 1 s", "loading"]),
    "400": (whole("400 Bad", {"error": {"message": "too long", "code": "context_length_exceeded"}}),
            ["400", "too long", "/clear"]),
    "422 of FastAPI": (whole("422 No", {"detail": "top_k"}), ["422", "top_k"]),
    "elsewhere": (whole("307 Go", b"", "Location: http://a.org/v1"), ["http://a.org/v1", "--url"]),
    "deep JSON": (whole("400 Bad", b"[" * 200_000), ["400"]),
    "a page": (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>", ["text/html", "OpenAI"]),
    "an answer that is no stream": (whole("200 OK", {"choices": []}), ["application/json"]),
    "nothing": (b"", ["broke"]),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n", ["broke"]),
    "a head without end": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 3_000_000, ["broke"]),
    "an error event": (HEAD + event(content="so") + chunk(error={"message": "died"}), ["broke", "died"]),
    "a bare error event": (HEAD + b'data: {"error": "died"}\n\n', ["died"]),
    "no JSON": (HEAD + b"data: {not\n\n", ["no JSON"]),
    "deep event": (HEAD + b"data: " + b"[" * 100_000 + b"\n\n", ["no JSON"]),
    "no object": (HEAD + b"data: 5\n\n", ["no part of an answer"]),
    "choices": (HEAD + b'data: {"choices": 5}\n\n', ["choices"]),
    "a choice": (HEAD + b'data: {"choices": [5]}\n\n', ["choices"]),
    "a delta": (HEAD + b'data: {"choices": [{"delta": 5}]}\n\n', ["delta"]),
    "content": (HEAD + b'data: {"choices": [{"delta": {"content": []}}]}\n\n', ["content"]),
    "a call": (HEAD + b'data: {"choices": [{"delta": {"tool_calls": [{"index": 1e9}]}}]}\n\n', ["calls"]),
    "many calls": (HEAD + event(tool_calls=[{"index": 128, "function": {}}]), ["calls"]),
    "an end too early": (HEAD + event(content="so"), ["broke off"]),
    "half an event": (HEAD + event(content="so") + last()[:-1], ["broke off"]),
    "a broken body": (with_header(b"Content-Length: 999") + event(content="so"), ["broke"]),
    "a false compression": (with_header(b"Content-Encoding: gzip") + b"xyz", ["broke"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_no_answer_is_told_in_a_sentence_and_not_kept(
    other: OtherServer, name: str, tmp_path: Path
) -> None:
    answer, words = REFUSALS[name]
    other.pieces = [answer]
    file = tmp_path / "chat.json"
    result = say(other, stdin=f"hi\n/save {file}\n")
    assert_refused_in_chat(result, words)
    assert json.loads(file.read_text())["messages"] == []


def assert_refused_in_chat(result: Any, words: list[str]) -> None:
    assert result.exit_code == 2, result.stderr
    [line] = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert all(word in line for word in words), line
    assert "bug" not in line


def test_after_an_error_the_chat_goes_on(other: OtherServer) -> None:
    good, other.pieces = other.pieces, [whole("503 No", {})]
    client = RemoteClient(base_url(other.url))
    with pytest.raises(RemoteError):
        list(client.chat({}))
    other.pieces = good
    assert "".join(piece.text for piece in client.chat({})) == "hello"


def test_an_endless_refusal_is_not_read_to_its_end(other: OtherServer) -> None:
    other.pieces = [b"HTTP/1.1 500 No\r\n\r\n", *[b"x" * 65536] * 2000]
    assert_refused_in_chat(say(other), ["failed (500)"])
    assert other.left.wait(5)


def test_a_refused_key_is_told_apart_from_a_missing_one(
    other: OtherServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "s3cret")
    other.pieces = [whole("401 Unauthorized", {})]
    result = say(other, "--api-key-env", "THE_KEY")
    assert_refused_in_chat(result, ["refuses the key"])
    assert "s3cret" not in result.stderr


def test_where_nobody_answers_the_first_line_says_so(other: OtherServer) -> None:
    other.close()
    assert_refused(say(other), other.url, "does a server run there?")
    assert_refused(invoke("chat", "--url", "http://no-such-host.invalid"), "no-such-host.invalid")


def test_silence_ends_an_answer(other: OtherServer) -> None:
    other.pieces, other.pause = [HEAD, event(content="a"), event(content="b")], 3
    client = RemoteClient(base_url(other.url), silence=0.2)
    with pytest.raises(RemoteError, match=r"nothing for 0\.2 s"):
        list(client.chat({}))


def test_events_are_read_however_they_are_cut_and_written(other: OtherServer) -> None:
    stream = b": waiting\r\n\r\nevent: x\ndata:one\nid: 5\n\ndata: two\r\ndata: lines\r\n\r\n\n\ndata: lost"
    for size in (1, 2, 7, 1000):
        pieces = (stream[i : i + size] for i in range(0, len(stream), size))
        assert list(events(pieces)) == [b"one", b"two\nlines"]


@pytest.mark.parametrize("form", ["one line", "many lines"])
def test_an_endless_event_does_not_fill_the_memory(form: str) -> None:
    piece = b"x" * 65536 if form == "one line" else b"data: " + b"x" * 65536 + b"\n"

    def endless() -> Iterator[bytes]:
        yield b"data: "
        while True:
            yield piece

    tracemalloc.start()
    try:
        with pytest.raises(RemoteError, match="16 MiB"):
            list(events(endless()))
        assert tracemalloc.get_traced_memory()[1] < 4 * MOST_LINE
    finally:
        tracemalloc.stop()


def test_what_others_send_beside_the_answer_is_no_obstacle(other: OtherServer) -> None:
    other.pieces = [
        with_header(b"Content-Length: 9999"),
        chunk(choices=[], prompt_filter_results=[]),
        event(role="assistant", content=None, refusal=None, tool_calls=None),
        chunk(choices=[{"index": 1, "delta": {"content": "second choice"}}]),
        event(content="x", reasoning="hm", reasoning_content="hm"),
        chunk(choices=[{"delta": {"refusal": "no"}}]),
        event(content="half \ud83d and \ud83d\ude00"),
        last("content_filter"),
        chunk(
            choices=None, usage={"prompt_tokens": 5, "completion_tokens": "many", "prompt_tokens_details": 1}
        ),
    ]  # the connection breaks without [DONE], after the finish_reason
    result = say(other, stdin="hi\n/stats\n")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "xnohalf \ufffd and \U0001f600\n"
    assert "\nhm\n" in result.stderr  # once, though it has two names
    assert "ended by: content_filter" in result.stderr
    assert "5 prompt tokens" in result.stderr


def test_calls_of_tools_that_nobody_offered_are_shown_even_when_broken(other: OtherServer) -> None:
    def call(index: int, **function: str) -> bytes:
        return event(tool_calls=[{"index": index, "function": function}])

    calls = [call(0, name="f", arguments='{"a"'), call(1, name="g", arguments="{"), call(0, arguments=": 1}")]
    other.pieces = [HEAD, *calls, last("tool_calls")]
    result = say(other)
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"name": "f", "arguments": {"a": 1}},
        {"name": "g", "arguments": "{"},
    ]


def test_a_server_cannot_steer_the_terminal(other: OtherServer) -> None:
    other.models = whole("200 OK", {"data": [{"id": "x\x1b[2J"}]})
    other.pieces = [whole("400 Bad", {"error": {"message": "\x1b]0;owned\x07 \x1b[2J" + "x" * 9999}})]
    result = say(other)
    assert "\x1b" not in result.stderr
    assert "\x07" not in result.stderr
    assert len(result.stderr) < 2000


def test_answers_that_the_server_does_not_count_are_not_counted(other: OtherServer) -> None:
    result = say(other, stdin="hi\n/stats\n")
    assert "1 reply, 0 prompt tokens" in result.stderr
    assert "of 1 the server told no tokens" in result.stderr


def test_ctrl_c_stops_the_answer_closes_the_connection_and_not_the_chat(other: OtherServer) -> None:
    other.pieces, other.pause = [HEAD, *[event(content="word ")] * 1000], 0.02
    with subprocess.Popen(
        command("chat", "--url", other.url),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=take_interrupts,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        assert process.stdout.read(9) == b"word word"
        process.send_signal(signal.SIGINT)
        assert other.left.wait(5)
        other.pieces, other.pause = [HEAD, event(content="good"), last()], 0
        process.stdin.write(b"again\n")
        process.stdin.close()
        assert process.wait(60) == 0
        assert process.stdout.read().endswith(b"good\n")
        assert b"stopped" in process.stderr.read()
    assert other.bodies[1]["messages"][1]["content"].startswith("word word")


# -- our own server -----------------------------------------------------------------------------------


def test_our_own_server_gives_the_answers_of_the_same_model_here(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("the-key\n")
    turns = "Who are you?\n/set max_tokens 12\nAnd who am I?\n/stats\n"
    options = ("--seed", "5", "--temperature", "0.8", "--max-tokens", "20")
    with program(
        "--api-key-file", str(keys), "--served-model-name", "a", "--served-model-name", "b"
    ) as server:
        url = f"http://127.0.0.1:{server.port}"
        there = invoke("chat", "--url", url, "--api-key-file", str(keys), *options, stdin=turns)
        without = invoke("chat", "--url", url, *options, stdin=turns)
        wrong = invoke("chat", "--url", url, "-m", "c", "--api-key-file", str(keys), stdin="hi\n")
    here = invoke("chat", "--backend", "reference", *options, stdin=turns)
    assert there.exit_code == here.exit_code == 0, there.stderr
    assert there.stdout == here.stdout != ""
    counts = [line.split(" written")[0] for line in there.stderr.splitlines() if " written" in line]
    assert counts
    assert counts == [line.split(" written")[0] for line in here.stderr.splitlines() if " written" in line]
    assert there.stderr.startswith("a: ")
    assert_refused(without, "401", "wants a key")
    assert_refused_in_chat(wrong, ["404", "'c'"])
