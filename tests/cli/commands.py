"""Running the command line in tests: in this process, or as a program of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from assets import ROOT

PYTHON = sys.executable


def invoke(*arguments: str, stdin: str | bytes = b"") -> Result:
    """The command in this process, with a pipe as standard input; stdout and stderr kept apart."""
    from qanat.cli.app import app

    data = stdin.encode() if isinstance(stdin, str) else stdin
    return CliRunner().invoke(app, list(arguments), input=data, prog_name="qanat")


def spawn(
    *arguments: str, stdin: bytes = b"", cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """`python -m qanat` as a process."""
    return subprocess.run(
        command(*arguments),
        input=stdin,
        capture_output=True,
        cwd=cwd or ROOT,
        env={**environment(), **(env or {})},
        timeout=120,
        check=False,
    )


def command(*arguments: str) -> Sequence[str]:
    return [PYTHON, "-m", "qanat", *arguments]


def take_interrupts() -> None:
    """For `preexec_fn`: Ctrl-C reaches the program even where the tests run in the background of a shell."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def environment() -> dict[str, Any]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "COLUMNS": "100"}


def assert_refused(result: Result, *words: str) -> None:
    """Exit code 2, nothing on stdout, and one line on stderr that has the words."""
    assert result.exit_code == 2, (result.exit_code, result.stdout, result.stderr)
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, result.stderr
    for word in words:
        assert word in lines[0], lines[0]
    assert "Traceback" not in result.stderr
