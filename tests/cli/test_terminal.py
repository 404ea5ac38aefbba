"""The terminal while an answer is drawn or waited for."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from qanat.cli.terminal import Status, quiet_interrupt

termios = pytest.importorskip("termios")


def test_ctrl_c_is_not_echoed_into_an_answer_and_is_again_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import pty

    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        before = termios.tcgetattr(terminal)
        assert before[3] & termios.ECHOCTL
        with pytest.raises(KeyboardInterrupt), quiet_interrupt():
            interrupt_where_nothing_is_echoed(terminal, before)
        assert termios.tcgetattr(terminal) == before
    os.close(ours)


def test_without_a_terminal_there_is_no_echo_to_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    with quiet_interrupt():
        pass


def interrupt_where_nothing_is_echoed(terminal: Any, before: list[Any]) -> None:
    assert termios.tcgetattr(terminal)[3] == before[3] & ~termios.ECHOCTL
    raise KeyboardInterrupt


class Screen(io.StringIO):
    """A terminal that remembers what was written."""

    def isatty(self) -> bool:
        return True


def wait(*, worth_a_line: bool) -> None:
    status = Status(worth_a_line=worth_a_line)
    status.show("loading")
    status.show("reading" + "!" * 500)
    status.clear()
    status.clear()


def test_a_screen_shows_one_status_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stderr", screen)
    wait(worth_a_line=False)
    long = "reading" + "!" * 32
    assert screen.getvalue() == f"\r\x1b[K\x1b[2mloading\x1b[0m\r\x1b[K\x1b[2m{long}\x1b[0m\r\x1b[K"


def test_a_pipe_gets_one_line_about_a_long_wait_and_none_about_a_short_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wait(worth_a_line=True)
    assert capsys.readouterr().err == "loading\n"
    wait(worth_a_line=False)
    assert capsys.readouterr().err == ""


def on_screen(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What stderr is given when it is a screen; stdout is not."""
    from qanat.cli.app import app

    screen = Screen()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello\n" * (arguments[0] == "chat"))))
    with pytest.raises(SystemExit) as left:
        app(arguments)
    assert left.value.code in (0, None), screen.getvalue()
    return screen.getvalue()


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "hello", "--greedy", "--system", "Be brief.", "--sanitize"],
        ["run", "hello", "--greedy", "--raw", "--max-tokens", "3"],
        ["chat", "--greedy"],
        ["explain", "-m", "pocket", "hello"],
    ],
)
def test_a_screen_is_told_what_is_waited_for(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = on_screen(arguments, monkeypatch)
    loading, reading = said.index("loading the weights, "), said.index("reading the prompt (")
    assert loading < reading < said.rindex("\r\x1b[K")
    if arguments[0] == "run":
        count = said[reading:].partition("(")[2].partition(" ")[0]
        assert f"prompt {count} tokens at" in said  # as the summary counts it
