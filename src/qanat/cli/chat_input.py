"""Where the user's turns come from: typed with an editor and a history, or piped in line by line."""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol

from qanat.cli.chat_state import state_folder
from qanat.cli.input import InputError
from qanat.cli.output import note

__all__ = ["Lines", "PipedLines", "TypedLines"]


class Lines(Protocol):
    """A source of turns."""

    typed: bool
    """Whether a person is there."""

    def next(self) -> str | None:
        """The next turn, which may have several lines; None at the end."""


class PipedLines:
    """One turn a line of standard input; a backslash at the end joins the next line."""

    typed = False

    def next(self) -> str | None:
        """The next turn; None at the end of the input."""
        parts: list[str] = []
        while line := sys.stdin.buffer.readline():
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError:
                raise InputError(
                    "standard input is not UTF-8 text; convert it first, for example with iconv"
                ) from None
            text = text.rstrip("\r\n")
            if not text.endswith("\\"):
                return "\n".join([*parts, text])
            parts.append(text[:-1])
        return "\n".join(parts) if parts else None


class TypedLines:
    """prompt_toolkit: several lines, bracketed paste, and a history that outlives the chat."""

    typed = True

    def __init__(self, **session: Any) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        if not sys.stdout.isatty():  # the answers are piped away: talk to the person on stderr
            from prompt_toolkit.output import create_output

            session.setdefault("output", create_output(stdout=sys.stderr))
        self._session: PromptSession[str] = PromptSession(
            history=_history(), key_bindings=keys, multiline=True, prompt_continuation="... ", **session
        )

    def next(self) -> str | None:
        """The next turn; Ctrl-C empties the line, Ctrl-D on an empty one ends the chat."""
        while True:
            try:
                return self._session.prompt(">>> ")
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None


def _history() -> Any:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    folder = state_folder()
    file = folder / "history"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Readable by its owner alone: people type private things.
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError as error:
        note(f"typed lines are not remembered: {file}: {error.strerror or error}")
        return InMemoryHistory()
    return FileHistory(str(file))
