"""A progress bar for many requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from qanat.engine.reply import Reply

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(total: int, *, shown: bool) -> Iterator[Callable[[Reply], None]]:
    """Within the block, call what it gives with each reply. Written to the standard error.

    Args:
        total: how many replies will come.
        shown: False does nothing.
    """
    if not shown:
        yield lambda reply: None
        return
    from rich.console import Console
    from rich.progress import BarColumn as Bar
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (Bar(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=total, rate="")
        tokens = 0

        def count(reply: Reply) -> None:
            nonlocal tokens
            tokens += reply.usage.completion_tokens
            elapsed = progress.tasks[0].elapsed
            progress.update(task, advance=1, rate=f"{tokens / elapsed:.0f} tok/s" if elapsed else "")

        yield count
