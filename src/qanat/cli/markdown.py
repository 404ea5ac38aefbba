"""Streaming Markdown on a screen: what is complete is printed for good, only the last block is redrawn."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from qanat.cli.output import StreamPrinter, visible

if TYPE_CHECKING:
    from rich.live import Live

__all__ = ["MarkdownPrinter", "complete_blocks"]

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")


def complete_blocks(text: str) -> int:
    """How many characters of streaming Markdown end with a finished top-level block.

    A block ends at a blank line outside a code fence when the next line is not indented (an indented line
    would still belong to a list item). More text can then no longer change how the part before is drawn.
    """
    fence, end, at = "", 0, 0
    blank = False
    for line in text.splitlines(keepends=True):
        if blank and not fence and line.strip() and not line[0].isspace():
            end = at
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        blank = not line.strip()
        at += len(line)
    return end


class MarkdownPrinter(StreamPrinter):
    """Like StreamPrinter, for a screen: the answer is drawn as Markdown while it arrives.

    Redrawing only the unfinished block keeps the cost per token small and never scrolls text twice.
    """

    def __init__(self, *, hide_thinking: bool, console: Any = None) -> None:
        super().__init__(hide_thinking=hide_thinking)
        from rich.console import Console

        self._console = console or Console(file=sys.stdout, highlight=False)
        self._pending = ""
        self._live: Live | None = None

    def content(self, text: str) -> None:
        """A piece of the answer."""
        from rich.live import Live
        from rich.markdown import Markdown

        if not text:
            return
        self._end_thought()
        self._pending += visible(text)
        done = complete_blocks(self._pending)
        if done:
            self._stop()
            self._console.print(Markdown(self._pending[:done]))
            self._console.print()
            self._pending = self._pending[done:]
        if self._live is None:
            # Drawn a dozen times a second, not once a token: drawing costs more than a small model's token.
            self._live = Live(
                get_renderable=lambda: Markdown(self._pending),
                console=self._console,
                refresh_per_second=12,
                transient=True,
            )
            self._live.start()

    def finish(self) -> None:
        """Draw what is left for good."""
        from rich.markdown import Markdown

        self._end_thought()
        self._stop()
        if self._pending:
            self._console.print(Markdown(self._pending))
            self._pending = ""

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
