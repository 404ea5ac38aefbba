"""A side's process, as the driver sees it: asked when its turn comes, stopped in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["Worker", "WorkerError"]

UNWANTED = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that would contradict the number of threads that every side is given."""


class WorkerError(RuntimeError):
    """A side ended instead of answering; its own message stands on standard error."""


class Worker:
    """A process that speaks `side`'s protocol.

    Outside of `ask` it is stopped (SIGSTOP): threads that spin while they wait for work would take the
    processor from the side whose turn it is.
    """

    def __init__(self, command: Sequence[str], *, path: Path | None = None) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in UNWANTED}
        if path is not None:
            environment["PYTHONPATH"] = str(path)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """One request and its answer.

        Raises:
            WorkerError: the process has ended.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.send_signal(signal.SIGCONT)
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise WorkerError(f"{' '.join(map(str, process.args))} ended while asked to {do}")  # type: ignore[arg-type]
        process.send_signal(signal.SIGSTOP)
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
