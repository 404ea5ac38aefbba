"""Where `qanat batch` writes its results: a file that a killed run can go on with, or standard output."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

from qanat.cli.input import InputError
from qanat.cli.output import json_text, print_json

__all__ = ["ResultFile", "ResultStream", "Results", "succeeded"]

SYNC_SECONDS = 5.0
"""How much work a power failure may cost. A killed process loses nothing that was written."""


def succeeded(result: dict[str, Any]) -> bool:
    """Whether a result is an answer."""
    response = result["response"]
    return response is not None and response["status_code"] == 200


class Results(Protocol):
    """Takes results one by one."""

    def append(self, result: dict[str, Any]) -> None:
        """Write one; it is out of this process's hands when this returns."""

    def close(self) -> None:
        """Write nothing more."""


class ResultStream:
    """Standard output: nothing can be read back, so every run begins anew."""

    def append(self, result: dict[str, Any]) -> None:
        """Print it."""
        print_json(result)
        sys.stdout.flush()

    def close(self) -> None:
        """Nothing is held back."""


class ResultFile:
    """A file of results, one a line, each written by one call at its end.

    Opening it reads what is there. What a killed run left of a last line is cut off; anything else that is no
    result of these requests is refused, and then nothing in the file is changed.

    Args:
        path: the file; made if it is not there.
        expected: the ids that results of this run may have.
        prefix: how every id begins.

    Attributes:
        done: ids of the results that are there.
        failed: how many of them are no answers.

    Raises:
        InputError: it is no regular file, another run is writing to it, or it holds something else.
    """

    def __init__(self, path: Path, *, expected: Collection[str], prefix: str) -> None:
        self.path = path
        self.done: set[str] = set()
        self.failed = 0
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is no regular file: use - and redirect standard output")
        new = not path.exists()
        try:
            self._file = path.open("a+b", buffering=0)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        try:
            self._lock()
            self._file.truncate(self._read(expected, prefix))
        except BaseException:
            self._file.close()
            raise
        if new:
            _sync_folder(path)
        self._synced = time.monotonic()

    def append(self, result: dict[str, Any]) -> None:
        """Write one line."""
        left = memoryview(json_text(result).encode() + b"\n")
        while left:  # a full disk takes a part, then raises; the next run cuts it off
            left = left[self._file.write(left) :]
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self._sync()

    def close(self) -> None:
        """Bring all to the disk."""
        if not self._file.closed:
            self._sync()
            self._file.close()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"{self.path}: another run is writing to it: wait, or name another file"
            ) from None

    def _read(self, expected: Collection[str], prefix: str) -> int:
        """Note the results; returns how many bytes to keep."""
        kept = 0
        self._file.seek(0)
        lines = io.BufferedReader(self._file)
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                self._check_torn(line, number, prefix)
                break
            self._note(line, number, expected, prefix)
            kept += len(line)
        lines.detach()  # else it would close the file with itself
        return kept

    def _note(self, line: bytes, number: int, expected: Collection[str], prefix: str) -> None:
        try:
            result = json.loads(line)
            identity, ok = result["id"], succeeded(result)
        except (ValueError, KeyError, TypeError, RecursionError):
            identity, ok = None, False
        if not isinstance(identity, str) or not identity.startswith(prefix):
            raise self._foreign(number)
        if identity not in expected:
            raise InputError(
                f"{self.path}: line {number} is the result of another request, model or options "
                "(--seed, --weights, --backend, --max-model-len, or --memory where it decides these). If its "
                "request was changed, delete this line and it is answered anew; else repeat the command that "
                "wrote the file, or name another"
            )
        if identity in self.done:
            raise InputError(f"{self.path}: line {number} repeats an earlier result: delete one of them")
        self.done.add(identity)
        self.failed += not ok

    def _check_torn(self, line: bytes, number: int, prefix: str) -> None:
        """A last line without its end is cut off only if it looks like the beginning of a result."""
        start = f'{{"id": "{prefix}'.encode()
        # A power failure may leave room that was never written: zeros.
        if line.strip(b"\0") and line[: len(start)] != start[: len(line)]:
            raise self._foreign(number)

    def _foreign(self, number: int) -> InputError:
        return InputError(
            f"{self.path}: line {number} is no result of `qanat batch`, so nothing is written there: "
            "name another file"
        )


def _sync_folder(path: Path) -> None:
    """A new file's name must reach the disk too."""
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError:  # Windows, or a folder that may be written but not read
        return
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
