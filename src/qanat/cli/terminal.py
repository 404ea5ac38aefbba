"""The terminal while something is under way: a status line that goes away again, and no echo of Ctrl-C."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from qanat.cli.output import is_terminal, note, visible

__all__ = ["Status", "quiet_interrupt"]

_CLEAR = "\r\x1b[K"


class Status:
    """What is being waited for, on stderr.

    On a screen one line, rewritten by each `show` and gone after `clear`. Elsewhere nothing can be taken
    back, so only the first text is written, and only where the wait is worth a line.
    """

    def __init__(self, *, worth_a_line: bool) -> None:
        self.screen = is_terminal(sys.stderr)
        self._lines_left = int(worth_a_line and not self.screen)
        self._shown = False

    def show(self, text: str) -> None:
        """Say what is waited for now."""
        if self.screen:
            width = max(shutil.get_terminal_size().columns - 1, 1)  # a full line would wrap and stay
            print(f"{_CLEAR}\x1b[2m{visible(text)[:width]}\x1b[0m", end="", file=sys.stderr, flush=True)
            self._shown = True
        elif self._lines_left:
            self._lines_left -= 1
            note(text)

    def clear(self) -> None:
        """The wait is over: leave the screen as it was."""
        if self._shown:
            print(_CLEAR, end="", file=sys.stderr, flush=True)
            self._shown = False


@contextmanager
def quiet_interrupt() -> Iterator[None]:
    """Keep the terminal from writing `^C` into what is drawn: two columns more can wrap a full line.

    Ctrl-C still interrupts. Does nothing where there is no terminal, or none with such a switch.
    """
    try:
        import termios
    except ImportError:  # Windows
        yield
        return
    stream: Any = next(
        (s for s in (sys.stdin, sys.stdout) if s is not None and not s.closed and s.isatty()), None
    )
    try:
        terminal = stream.fileno()
        before = termios.tcgetattr(terminal)
    except (AttributeError, OSError, ValueError, termios.error):
        yield
        return
    quiet = [*before]
    quiet[3] = before[3] & ~termios.ECHOCTL
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, quiet)
        yield
    finally:
        with suppress(OSError, termios.error):  # the terminal may be gone by now
            termios.tcsetattr(terminal, termios.TCSANOW, before)
