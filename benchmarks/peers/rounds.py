"""Rounds in which every side has its turn, and the arithmetic of what they took.

A ratio of two sides is the median of the rounds' ratios, so that a slow minute of the machine, which both
met, does not count for either.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["PAIRS", "Asked", "Row", "measure_loads", "measure_row", "ratio", "ratios"]

PAIRS = (
    ("qanat-int8", "llama-q8_0"),
    ("qanat-bf16", "transformers-bf16"),
    ("qanat-bf16", "llama-q8_0"),
    ("qanat-int8", "qanat-bf16"),
)
"""(ours, theirs): of which a ratio says something."""


class Asked(Protocol):
    """What takes requests: `worker.Worker`."""

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """One request and its answer."""


@dataclass(frozen=True)
class Row:
    """What is measured: new tokens of each sequence, one by one or all at once."""

    tokens: int
    count: int = 1
    context: int = 0
    at_once: bool = False

    @property
    def all_tokens(self) -> int:
        """Of all sequences."""
        return self.count * self.tokens


def measure_row(
    row: Row, sides: Mapping[str, Asked], rounds: int, between: Callable[[], None] = lambda: None
) -> dict[str, list[float]]:
    """Seconds of each round, by side. A round before the first warms up and is forgotten.

    Args:
        row: what.
        sides: by name; asked one after the other.
        rounds: how many count.
        between: called once at the beginning of each round that counts; measures the ceilings.
    """
    room = row.tokens if row.at_once else row.tokens * (rounds + 1)
    state = {"count": row.count, "context": row.context, "room": room}
    if not row.at_once:
        for side in sides.values():
            side.ask("prepare", **state)
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for round in range(rounds + 1):
        if round:
            between()
        for name, side in sides.items():
            if row.at_once:
                side.ask("prepare", **state)
                answer = side.ask("read", tokens=row.tokens)
            else:
                answer = side.ask("decode", steps=row.tokens)
            taken[name].append(float(answer["seconds"]))
    return {name: seconds[1:] for name, seconds in taken.items()}


def measure_loads(
    starts: Mapping[str, Callable[[], Any]], rounds: int
) -> dict[str, tuple[list[float], list[int]]]:
    """(seconds to a first token, peak bytes) of fresh processes, by side; one round warms the files up."""
    taken: dict[str, tuple[list[float], list[int]]] = {name: ([], []) for name in starts}
    for round in range(rounds + 1):
        for name, start in starts.items():
            process = start()
            try:
                seconds, peak = process.ask("first")["seconds"], process.ask("peak")["bytes"]
            finally:
                process.close()
            if round:
                taken[name][0].append(seconds)
                taken[name][1].append(peak)
    return taken


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How many times as fast ours is: the median of the rounds' ratios."""
    return statistics.median(b / a for a, b in zip(ours, theirs, strict=True))


def ratios(taken: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """ "ours / theirs" -> ratio, for the pairs of which both were measured."""
    return {
        f"{ours} / {theirs}": ratio(taken[ours], taken[theirs])
        for ours, theirs in PAIRS
        if ours in taken and theirs in taken
    }
