"""How commands end: one line, a meaningful exit code, never a traceback."""

from __future__ import annotations

import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from qanat.cli.guard import guarded, one_line
from qanat.errors import CheckpointError, OutOfMemoryError
from tests.cli.commands import assert_refused, command, environment, invoke, spawn, take_interrupts


def leave(action: Callable[[], object]) -> int:
    with pytest.raises(typer.Exit) as left, guarded():
        action()
    return left.value.exit_code


def fail(error: BaseException) -> Callable[[], object]:
    def action() -> object:
        raise error

    return action


def test_an_error_that_the_user_can_mend_is_one_line_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(fail(CheckpointError("weights are\n  missing"))) == 2
    assert capsys.readouterr().err == "error: weights are missing\n"


def test_too_little_memory_is_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(fail(OutOfMemoryError("needs 9 GiB"))) == 2
    assert leave(fail(MemoryError("Unable to allocate 9 GiB"))) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_a_bug_says_so_and_how_to_see_more(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QANAT_DEBUG", raising=False)
    assert leave(fail(ZeroDivisionError("by\nzero"))) == 70
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    for word in ("bug", "QANAT_DEBUG=1", "ZeroDivisionError"):
        assert word in said


def test_the_traceback_is_there_for_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_DEBUG", "1")
    with pytest.raises(ZeroDivisionError), guarded():
        raise ZeroDivisionError


def test_ctrl_c_is_130_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(fail(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err.strip() == ""


def test_messages_are_put_on_one_line() -> None:
    assert one_line("a\n  b\tc ") == "a b c"


@pytest.mark.parametrize(
    "arguments",
    [["nosuch"], ["--nosuch"], ["tokenize", "--nosuch"], ["inspect"], ["run", "--top-k", "x"], ["list", ""]],
)
def test_a_usage_error_is_one_line_and_code_2(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert_refused(result, "--help")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chat", "./model"], "-m ./model"),
        (["run", "who", "are", "you"], "put the prompt in quotes"),
        (["tokenize", "two", "words"], "put the text in quotes"),
        (["run", "--weights", "f16", "hi"], "'f16' is not one of"),
    ],
)
def test_a_usage_error_hints_at_what_was_meant(arguments: list[str], words: str) -> None:
    result = invoke(*arguments)
    assert_refused(result, words)
    assert "Value error" not in result.stderr


def test_an_error_cannot_steer_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(fail(CheckpointError("\x1b[31mred\x07 \x9b2J"))) == 2
    assert capsys.readouterr().err == "error: \u241b[31mred\u2407 \ufffd2J\n"


def test_a_missing_model_is_code_2_in_every_command() -> None:
    for arguments in (
        ["tokenize", "-m", "/nope", "x"],
        ["detokenize", "-m", "/nope", "1"],
        ["inspect", "/nope"],
        ["run", "-m", "/nope", "x"],
        ["explain", "-m", "/nope", "x"],
        ["chat", "-m", "/nope"],
    ):
        assert_refused(invoke(*arguments), "/nope")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    with subprocess.Popen(
        command("tokenize", "--pieces", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"word " * 50_000)
        process.stdin.close()
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['qanat', 'run', '--help']\n"
        "from qanat.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'jinja2', 'huggingface_hub', 'prompt_toolkit', 'qanat.engine', 'qanat.backends'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, env=environment(), timeout=60, check=True
    )
    assert done.stderr.decode().strip() == "[]"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    assert spawn("--help").returncode == 0
    # Processor time, because the machine may be busy with other tests. 0.2 s is usual.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 1


def test_leaving_does_not_search_what_was_loaded_for_garbage() -> None:
    program = (
        "import atexit, gc, sys; sys.argv = ['qanat', '--version']\n"
        "atexit.register(lambda: print(gc.get_count()[0] < gc.get_freeze_count(), file=sys.stderr))\n"
        "from qanat.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, env=environment(), timeout=60, check=False
    )
    assert done.stderr == b"True\n"


def test_the_version_is_printed() -> None:
    from qanat import __version__

    assert invoke("--version").stdout == f"qanat {__version__}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line_and_code_2() -> None:
    done = shell("tokenize hello > /dev/full")
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"No space left" in done.stderr


def test_closed_standard_streams_are_no_bug() -> None:
    assert shell("tokenize hello >&-").returncode == 0
    assert shell("tokenize hello <&-").stdout
    for reading in ("tokenize -", "detokenize -", "render -", "explain -"):
        closed = shell(f"{reading} <&-")
        assert (closed.returncode, closed.stderr.count(b"\n")) == (2, 1), closed.stderr
    assert shell("tokenize --nosuch 2>/dev/full").returncode == 2
    closed = shell("chat <&-")
    assert closed.returncode == 2
    assert b"standard input" in closed.stderr


def test_a_working_folder_that_is_gone_is_no_bug(tmp_path: Path) -> None:
    for arguments, code in (("tokenize hello", 0), ("tokenize --nosuch", 2), ("inspect nowhere/x", 2)):
        gone = tmp_path / "gone"
        gone.mkdir()
        program = f"cd {shlex.quote(str(gone))} && rmdir {shlex.quote(str(gone))} && {shlex.join(command())}"
        left = subprocess.run(
            ["sh", "-c", f"{program} {arguments} --offline"],
            capture_output=True,
            env=environment(),
            timeout=60,
            check=False,
        )
        assert left.returncode == code, left.stderr
        assert b"Traceback" not in left.stderr


def test_ctrl_c_while_starting_leaves_no_traceback() -> None:
    for delay in (0.05, 0.15, 0.3):
        with subprocess.Popen(
            command("run", "hello", "--ignore-eos"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(),
            preexec_fn=take_interrupts,
        ) as process:
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            process.wait(60)
            assert process.stderr is not None
            said = process.stderr.read()
            # Until Python runs our first line, the traceback is the interpreter's own.
            assert b"Traceback" not in said or b"qanat/cli" not in said, said


def shell(line: str) -> subprocess.CompletedProcess[bytes]:
    program = shlex.join(command())
    return subprocess.run(
        ["sh", "-c", f"{program} {line}"], capture_output=True, env=environment(), timeout=60, check=False
    )
