"""What a screen is shown and what a pipe gets."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from qanat.cli.markdown import MarkdownPrinter, complete_blocks
from qanat.cli.output import StreamPrinter, bytes_text, visible
from qanat.cli.speed import Stopwatch


class Screen(io.StringIO):
    """A terminal that remembers what was written."""

    def isatty(self) -> bool:
        return True


def open_screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Not a fixture: pytest puts its own stdout in place after the fixtures have run."""
    screen = Screen()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", screen)
    return screen


def speak(printer: Any) -> None:
    printer.reasoning("let me ")
    printer.reasoning("think")
    printer.content("the ")
    printer.content("answer")
    printer.finish()


def test_a_pipe_gets_the_answer_alone(capsys: pytest.CaptureFixture[str]) -> None:
    speak(StreamPrinter(hide_thinking=False))
    captured = capsys.readouterr()
    assert captured.out == "the answer\n"
    assert captured.err == "let me think\n\n"


def test_hidden_thoughts_are_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    speak(StreamPrinter(hide_thinking=True))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("the answer\n", "")


def test_a_screen_shows_thoughts_dim_before_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    speak(StreamPrinter(hide_thinking=False))
    assert screen.getvalue() == "\x1b[2mlet me think\x1b[0m\n\nthe answer\n"


def test_a_reply_cut_off_inside_its_thought_leaves_no_dim_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    printer = StreamPrinter(hide_thinking=False)
    printer.reasoning("hm")
    printer.finish()
    assert screen.getvalue() == "\x1b[2mhm\x1b[0m\n\n"


def test_what_a_model_writes_cannot_steer_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    printer = StreamPrinter(hide_thinking=False)
    printer.reasoning("\x1b[2J")
    printer.content("a\x1b]0;title\x07b\x9b1m\r\x7f\n\t")
    printer.finish()
    text = screen.getvalue().replace("\x1b[2m", "", 1).replace("\x1b[0m", "", 1)
    assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in text)
    assert visible("tab\t line\n") == "tab\t line\n"


def test_a_pipe_gets_every_character_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    printer = StreamPrinter(hide_thinking=False)
    printer.content("a\x1b[1mb\r\n")
    printer.finish()
    assert capsys.readouterr().out == "a\x1b[1mb\r\n"


def test_tool_calls_are_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    printer = StreamPrinter(hide_thinking=False)
    printer.content("calling")
    printer.tool_call("f", '{"x": 1}')
    printer.tool_call("g", "{}")
    printer.finish()
    assert capsys.readouterr().out == (
        'calling\n{"name": "f", "arguments": {"x": 1}}\n{"name": "g", "arguments": {}}\n'
    )


def test_half_a_character_in_a_tool_call_stays_an_escape(capsys: pytest.CaptureFixture[str]) -> None:
    printer = StreamPrinter(hide_thinking=False)
    printer.tool_call("f", '{"x": "\\ud800"}')
    printer.tool_call("g", '{"x": "é"}')
    first, second = capsys.readouterr().out.split("\n")[:2]
    assert first == '{"name": "f", "arguments": {"x": "\\ud800"}}'
    assert second == '{"name": "g", "arguments": {"x": "é"}}'


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (2_213_920, "2.21 MB"),
        (4_548_144_832, "4.55 GB"),
        (999_600, "1 MB"),
        (15e12, "15 TB"),
    ],
)
def test_bytes_are_told_in_three_digits(count: float, text: str) -> None:
    assert bytes_text(count) == text


def test_speed_counts_the_first_token_to_the_prompt() -> None:
    watch = Stopwatch(started=10.0, first=12.0, last=16.0)
    text = watch.describe(100, 9, 1e9)
    assert "100 tokens at 50.0 tok/s" in text
    assert "9 tokens at 2.0 tok/s (2 GB/s" in text
    assert "reply 1 tokens" in Stopwatch(started=1.0, first=2.0, last=2.0).describe(5, 1, 1e9)


# -- Markdown -----------------------------------------------------------------------------------------

DOCUMENT = """# Title

A paragraph with **bold**
on two lines.

- a list

  inside the list
- more

```python
x = 1

y = 2
```

1. one

2. two

end"""


def test_blocks_are_final_only_when_more_text_cannot_change_them() -> None:
    done = complete_blocks(DOCUMENT)
    assert DOCUMENT[done:] == "end"
    assert complete_blocks("```\na\n\nb\n") == 0
    assert complete_blocks("one\n\n") == 0  # the next line could still be indented
    assert complete_blocks("one\n\ntwo") == 5
    assert complete_blocks("- a\n\n  b") == 0


def test_the_cut_never_moves_back_as_text_arrives() -> None:
    last = 0
    for end in range(len(DOCUMENT) + 1):
        done = complete_blocks(DOCUMENT[:end])
        assert done >= last
        last = done


def test_streamed_markdown_shows_every_word_once() -> None:
    from rich.console import Console

    out = io.StringIO()
    printer = MarkdownPrinter(hide_thinking=True, console=Console(file=out, width=80))
    for character in DOCUMENT:
        printer.content(character)
    printer.finish()
    shown = out.getvalue()
    for word in ("Title", "bold", "inside the list", "x = 1", "y = 2", "one", "two", "end"):
        assert shown.count(word) == 1 or word in ("one", "two"), word
    assert "**" not in shown
