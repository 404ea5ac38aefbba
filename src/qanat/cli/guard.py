"""What the shell sees when a command fails: one line, a meaningful exit code, never a traceback."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer

from qanat.cli.invocation import pasteable
from qanat.cli.output import visible
from qanat.errors import QanatError

__all__ = ["BAD_INPUT", "BUG", "INTERRUPTED", "PIPE_CLOSED", "guarded", "one_line", "report"]

BAD_INPUT = 2
BUG = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT
PIPE_CLOSED = 141  # 128 + SIGPIPE, what a C program would leave with


_USAGE = typer.BadParameter.__bases__[0]
"""typer's error for a wrong command line; the version that typer carries inside has no public name."""

_TEXTS = {"run": "prompt", "explain": "text", "tokenize": "text"}
"""What the only argument of a command is, where words without quotes become several."""


def one_line(text: str) -> str:
    """`text` on a single line, however it was wrapped."""
    return " ".join(text.split())


def report(message: str) -> None:
    """Say what went wrong, on one line of stderr; words from a model's files must not steer the terminal."""
    with suppress(OSError, ValueError):  # nobody can be told; the exit code still tells
        print(f"error: {visible(pasteable(one_line(message)))}", file=sys.stderr, flush=True)


def _write_nothing_more() -> None:
    """Turn stdout away: what it still buffers must not be flushed into a broken pipe or full disk at exit."""
    with suppress(OSError, ValueError):  # a replaced stdout (in tests) has no file descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_message(message: str, called: str) -> str:
    """typer's words for a wrong command line, without its library's and with a hint where one helps."""
    message = message.rstrip(".").replace("Value error, ", "")
    extra = re.fullmatch(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", message, re.DOTALL)
    command = called.rpartition(" ")[2]
    if extra and command == "chat":
        return f"{message}: a model is named with -m, as in `{called} -m {extra[1]}`"
    if extra and command in _TEXTS:
        return f"{message}: put the {_TEXTS[command]} in quotes"
    return message


@contextmanager
def guarded() -> Iterator[None]:
    """Turn what a command raises into a message and an exit code.

    With QANAT_DEBUG=1 in the environment the exception passes through, with its traceback.
    """
    debug = os.environ.get("QANAT_DEBUG", "") not in ("", "0")
    try:
        yield
        sys.stdout.flush()  # here, where a closed pipe is still ours to handle
    except QanatError as error:
        if debug:
            raise
        report(str(error) or type(error).__name__)
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt:
        print(file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:  # the reader went away (`| head`)
        _write_nothing_more()
        raise typer.Exit(PIPE_CLOSED) from None
    except OSError as error:  # a full disk, a folder without permission: the caller's to mend
        if debug:
            raise
        _write_nothing_more()
        where = f"{error.filename}: " if error.filename else ""
        report(f"{where}{error.strerror or error}")
        raise typer.Exit(BAD_INPUT) from None
    except MemoryError as error:
        if debug:
            raise
        report(
            f"out of memory: {error or 'the machine refused an allocation'}; use a smaller model or context"
        )
        raise typer.Exit(BAD_INPUT) from None
    except Exception as error:
        # typer's own exceptions (Exit, Abort, usage errors) are no bugs.
        if debug or isinstance(error, (typer.Exit, typer.Abort, EOFError)):
            raise
        if isinstance(error, _USAGE):
            usage: Any = error
            called = usage.ctx.command_path if usage.ctx else "qanat"
            said = _usage_message(usage.format_message(), called)
            report(f"{said}; `{called} --help` shows the usage")
            raise typer.Exit(BAD_INPUT) from None
        report(
            f"qanat has a bug: {type(error).__name__}: {error}. Please report it with the command you typed; "
            "QANAT_DEBUG=1 before the command shows the traceback"
        )
        raise typer.Exit(BUG) from None
