"""`qanat serve` as a program: signals, the engine's process, and what is refused before it loads."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import assert_refused, command, environment, invoke
from tests.server.bodies import ask
from tests.server.http.serving import Program, eventually, program, ready_port

CHAT = "/v1/chat/completions"
LONG: dict[str, Any] = {"messages": ask(), "ignore_eos": True, "temperature": 1, "max_tokens": 3000}


def state(server: Program) -> Any:
    return server.ask("GET", "/health")[:2]


def test_what_a_server_says_before_it_is_ready_is_told_only_if_it_fails() -> None:
    before = ["compiling the kernels ...\n", "loading\n"]
    ready = "ready: OpenAI's API at http://127.0.0.1:81/v1, a page at http://127.0.0.1:81/ (Ctrl-C ends it)\n"
    assert ready_port([*before, ready, "stopping\n"]) == 81
    with pytest.raises(AssertionError, match=r"compiling the kernels \.\.\."):
        ready_port(before)


def test_told_to_stop_it_lets_answers_end_and_takes_nobody_new() -> None:
    with program() as server, server.streaming(CHAT, **{**LONG, "max_tokens": 800}) as stream:
        objects = stream.objects()
        next(objects)
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: state(server) == (503, {"status": "stopping"}))
        assert server.refused(503, CHAT, messages=ask())["code"] == "stopping"
        assert server.refused(503, "/tokenize", content="x")["code"] == "stopping"
        *_, last = objects
        assert (stream.done, last["choices"][0]["finish_reason"]) == (True, "length")
        _, said = server.process.communicate(timeout=20)
        assert server.process.returncode == 0
        assert said.startswith("stopping: 1 requests have 30 s to end")
        assert len(said.splitlines()) == 1, said


@pytest.mark.parametrize("how", ["the time is up", "a second signal"])
def test_answers_that_do_not_end_in_time_end_with_an_error_event(how: str) -> None:
    drain = "0.2" if how == "the time is up" else "60"
    with program("--drain", drain) as server, contextlib.ExitStack() as streams:
        several = [streams.enter_context(server.streaming(CHAT, **LONG)) for _ in range(8)]
        begun = [stream.objects() for stream in several]
        for objects in begun:
            next(objects)
        [child] = server.children()
        server.process.send_signal(signal.SIGINT)
        if how == "a second signal":
            eventually(lambda: state(server)[0] == 503)
            server.process.send_signal(signal.SIGINT)
        for stream, objects in zip(several, begun, strict=True):
            *_, last = objects
            assert (last["error"]["code"], stream.done) == ("stopping", False)
        _, said = server.process.communicate(timeout=20)
        assert server.process.returncode == 0
        assert "Traceback" not in said
        assert not Path(f"/proc/{child}").exists()


def test_a_signal_to_the_whole_group_lets_answers_end_too() -> None:
    """As a service manager or a terminal sends it: to the engine's process as well."""
    with program() as server, server.streaming(CHAT, **{**LONG, "max_tokens": 300}) as stream:
        objects = stream.objects()
        next(objects)
        for number in (server.process.pid, *server.children()):
            os.kill(number, signal.SIGTERM)
        assert list(objects)
        assert stream.done
        assert server.process.wait(20) == 0


def test_the_engine_is_a_program_of_its_own_and_its_death_is_told() -> None:
    with program() as server:
        [child] = server.children()
        told = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        assert b"qanat.server.engine_process" in told
        ports = [p for p in (server.process.pid, child) if listening(p)]
        assert ports == [server.process.pid], "one port is open, the server's"
        with server.streaming(CHAT, **LONG) as stream:
            objects = stream.objects()
            next(objects)
            os.kill(child, signal.SIGKILL)
            *_, last = objects
            assert (last["error"]["code"], last["error"]["type"]) == ("engine_dead", "server_error")
            assert not stream.done
        assert state(server) == (503, {"status": "dead"})
        assert server.refused(503, CHAT, messages=ask())["code"] == "engine_dead"
        assert server.metric("qanat_up") == 0
        assert server.process.stderr is not None
        assert "died (signal 9)" in server.process.stderr.readline()
        assert server.stop() == (0, "")


def listening(number: int) -> bool:
    """Whether a process has a TCP socket that listens."""
    inodes = {
        line.split()[9] for name in ("tcp", "tcp6") for line in tcp_lines(name) if line.split()[3] == "0A"
    }
    links = [str(link.readlink()) for link in Path(f"/proc/{number}/fd").iterdir() if link.is_symlink()]
    return any(link.removeprefix("socket:[").rstrip("]") in inodes for link in links)


def tcp_lines(name: str) -> list[str]:
    file = Path(f"/proc/net/{name}")
    return file.read_text().splitlines()[1:] if file.exists() else []


def test_an_engine_that_died_is_started_again_where_that_is_wanted() -> None:
    with program("--restart-engine") as server:
        [child] = server.children()
        os.kill(child, signal.SIGKILL)
        eventually(lambda: state(server)[0] == 503)
        assert state(server) == (503, {"status": "loading"})  # nobody has to do anything about it
        assert server.refused(503, CHAT, messages=ask())["code"] == "loading"
        eventually(lambda: state(server)[0] == 200)
        assert server.post(CHAT, messages=ask("Who are you?"))["choices"][0]["message"]["content"]
        [other] = server.children()
        assert other != child
        code, said = server.stop()
        assert (code, "is started again in 1 s" in said, "ready again" in said) == (0, True, True), said


def test_no_engine_is_left_when_its_server_is_killed() -> None:
    with program() as server:
        [child] = server.children()
        with server.streaming(CHAT, **LONG) as stream:
            next(stream.objects())
            server.process.kill()
            eventually(lambda: not Path(f"/proc/{child}").exists())


def test_it_takes_its_connections_where_few_open_files_are_usual() -> None:
    few = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, few[1]))
    try:
        with program() as server:
            allowed = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, few)
    assert allowed[0] >= 1024 + 64


def test_a_module_in_the_folder_is_not_taken_for_the_librarys(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('hijacked')")
    (tmp_path / "qanat").mkdir()
    script = (
        "import sys; sys.path.pop(0); sys.argv = ['qanat', 'serve', '--port', '0', '--backend', 'reference']"
    )
    script += "; from qanat.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stderr is not None
        assert ready_port(process.stderr)
        process.terminate()
        assert process.wait(20) == 0


def test_a_model_that_cannot_be_loaded_ends_the_server_with_its_reason(tmp_path: Path) -> None:
    for options, word in (
        (["-m", str(tmp_path / "none")], "none"),
        (["--memory", "1MB"], "memory"),
        (["--backend", "reference", "--weights", "int8"], "int8"),
    ):
        done = subprocess.run(
            command("serve", "--port", "0", *options),
            capture_output=True,
            text=True,
            env=environment(),
            timeout=60,
        )
        lines = done.stderr.splitlines()
        assert (done.returncode, len(lines), done.stdout) == (2, 1, ""), done.stderr
        assert lines[0].startswith("error: ")
        assert word in lines[0]


def test_what_would_be_unsafe_or_without_effect_is_refused(tmp_path: Path) -> None:
    assert_refused(invoke("serve", "--host", "0.0.0.0"), "--api-key-file")
    assert_refused(invoke("serve", "--allow-origin", "*"), "--api-key-file")
    assert_refused(invoke("serve", "--allow-origin", "example.org"), "https://example.org")
    assert_refused(invoke("serve", "--allow-origin", "https://example.org/"), "https://example.org")
    assert_refused(invoke("serve", "--api-key-file", str(tmp_path / "none")), "none")
    assert_refused(invoke("serve", "--request-timeout", "inf"), "--request-timeout")
    assert_refused(invoke("serve", "--drain", "nan"), "--drain")
    assert_refused(invoke("serve", "--served-model-name", " "), "--served-model-name")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert_refused(invoke("serve", "--port", port), port, "--port")


@pytest.mark.parametrize("missing", ["starlette", "uvicorn", "msgspec", "prometheus_client"])
def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    assert_refused(invoke("serve"), missing, "pip install", "[serve]")


def test_nothing_but_serve_needs_the_extra() -> None:
    """Every other room, and the dialect as data, work where it is not installed."""
    script = (
        "import sys\n"
        "for name in ('starlette', 'uvicorn', 'h11', 'msgspec', 'prometheus_client'):\n"
        "    sys.modules[name] = None\n"
        "import qanat.cli.app, qanat.engine.async_llm, qanat.server.batch_run, qanat.server.streams\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env=environment(), timeout=60)


def test_it_can_be_stopped_while_it_loads() -> None:
    arguments = command("serve", "--port", "0", "--backend", "reference")
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        server = Program(process, 0)
        eventually(lambda: bool(server.children()))
        [child] = server.children()
        code, said = server.stop()
        assert (code, "Traceback" in said) == (0, False), said
        eventually(lambda: not Path(f"/proc/{child}").exists())
