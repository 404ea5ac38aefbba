"""The command line: arguments in, text on the terminal out.

Knows: options, terminals, streaming to a screen, exit codes. Must not know: how a prompt becomes a token.
Heavy rooms (engine, backends) are imported inside the commands that need them, so that `--help` stays quick.

Exit codes: 0 done; 1 `verify` found a difference, or lines of a `batch` failed; 2 something the caller can
mend (one line on stderr); 70 a bug in qanat; 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line on `sys.argv` and leave with its exit code."""
    import atexit
    import gc
    import sys

    gc.set_threshold(100_000, 20, 20)  # imports make many objects and little garbage: 0.15 s of a start
    atexit.register(gc.freeze)  # the system frees it all: looking for cycles first is 0.25 s of leaving
    try:
        from qanat.cli.app import run

        run()
    except KeyboardInterrupt:  # before or after the guarded part: while importing, or leaving
        sys.exit(130)
