"""Times that a busy machine may stretch, judged beside something ordinary that it stretches as much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Judged:
    """Milliseconds of the best round, and what would have been allowed then."""

    time: float
    allowed: float

    @property
    def holds(self) -> bool:
        return self.time <= self.allowed


def judged(
    measure: Callable[[], float],
    ordinary: Callable[[], float],
    *,
    limit: float,
    times: float,
    rounds: int = 8,
) -> Judged:
    """Measure until a round is within `limit`, or within `times` what something ordinary takes after it.

    On a machine that does nothing else `times` the ordinary must be less than `limit`, which then is what
    counts. What disturbs can only make a round longer, so the best one is the truest.
    """
    found = []
    for _ in range(rounds):
        time = measure()
        found.append(Judged(time, limit if time <= limit else max(limit, times * ordinary())))
        if found[-1].holds:
            break
    return min(found, key=lambda one: one.time / one.allowed)
