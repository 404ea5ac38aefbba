"""One side of a comparison: a process that is asked in JSON lines and measures itself.

A side is an object with the methods of `Side`. `serve` reads requests from standard input and writes one
answer a line to what was standard output when it began; whatever libraries print goes to standard error.
Only the standard library is used: sides run in environments of their own.

    {"do": "load"}                            -> {"bytes": 2.0e9, "version": "..."}
    {"do": "first"}                           -> {"seconds": 0.9}  in a fresh process, to a first token
    {"do": "prepare", "count": 8, "context": 0, "room": 64} -> {}
    {"do": "read", "tokens": 512}             -> {"seconds": 3.1}  new tokens of each sequence
    {"do": "decode", "steps": 16}             -> {"seconds": 0.8}  one token of each, 16 times
    {"do": "peak"}                            -> {"bytes": 2.4e9}  memory held at most
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol


class Side(Protocol):
    """An engine with a model: sequences that all read or decode the same number of tokens."""

    def load(self) -> dict[str, Any]:
        """Load the weights; "bytes" of them, and the "version" of the engine."""

    def first(self) -> None:
        """In a process that has loaded nothing: load, read a prompt of 16 tokens, choose a token."""

    def prepare(self, count: int, context: int, room: int) -> None:
        """Forget all sequences; make `count` new ones with `context` tokens behind them, for `room` more."""

    def read(self, tokens: int) -> None:
        """Read `tokens` new tokens of each sequence and compute the last one's logits."""

    def decode(self, steps: int) -> None:
        """One token of each sequence, `steps` times, and logits each time. Which token does not matter."""


def peak_bytes() -> int:
    """The most memory that this process has held (Linux)."""
    with open("/proc/self/status") as status:  # noqa: PTH123
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) * 1024


def serve(side: Side) -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    timed: dict[str, Callable[..., None]] = {"first": side.first, "read": side.read, "decode": side.decode}
    for line in sys.stdin:
        request = json.loads(line)
        what = request.pop("do")
        answer: dict[str, Any] = {}
        if what in timed:
            begun = time.perf_counter()
            timed[what](**request)
            answer["seconds"] = time.perf_counter() - begun
        elif what == "load":
            answer = side.load()
        elif what == "prepare":
            side.prepare(**request)
        elif what == "peak":
            answer["bytes"] = peak_bytes()
        else:
            raise SystemExit(f"unknown request {what!r}")
        print(json.dumps(answer), file=answers, flush=True)
