"""Figures for Prometheus: what HTTP sees is counted here, what the engine did is asked of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from qanat.engine.stats import EngineStats

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)

_COUNTERS: dict[str, tuple[str, Callable[[EngineStats], float]]] = {
    "prompt_tokens": ("Tokens of prompts that were computed.", lambda s: s.prompt_tokens),
    "cached_tokens": ("Tokens of prompts that were there already.", lambda s: s.cached_tokens),
    "output_tokens": ("Tokens that were generated.", lambda s: s.output_tokens),
    "steps": ("Steps of the model.", lambda s: s.steps),
    "computing_seconds": ("Time in the model.", lambda s: s.computing),
    "overhead_seconds": (
        "Time of steps beside the model.",
        lambda s: s.scheduling + s.sampling + s.writing,
    ),
    "sequences_finished": ("Replies that ended by themselves.", lambda s: s.finished),
    "sequences_failed": ("Replies that ended with an error.", lambda s: s.failed),
    "sequences_cancelled": ("Replies that nobody waited for any more.", lambda s: s.cancelled),
    "sequences_expired": ("Replies whose time was up.", lambda s: s.expired),
    "preemptions": ("Replies that had to give their state back for a while.", lambda s: s.preemptions),
}
_GAUGES: dict[str, tuple[str, Callable[[EngineStats], float]]] = {
    "sequences_running": ("Replies that are computed.", lambda s: s.running),
    "sequences_waiting": ("Replies in the queue.", lambda s: s.waiting),
    "snapshots": ("Prefixes whose state is kept.", lambda s: s.snapshots),
    "pages": ("Pages of keys and values.", lambda s: s.pages),
    "pages_free": ("Those that nobody owns.", lambda s: s.free_pages),
}


class Metrics:
    """One server's figures, since its start. The engine's begin anew with its process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.answers = Counter(
            "qanat_http_answers", "Answers by path and status.", ("path", "status"), registry=self._registry
        )
        self._first = Histogram(
            "qanat_first_chunk_seconds",
            "From a streaming request to its first chunk.",
            buckets=SECONDS,
            registry=self._registry,
        )
        self._whole = Histogram(
            "qanat_answer_seconds", "From a request to its end.", buckets=SECONDS, registry=self._registry
        )

    def clock(self) -> Clock:
        """Begin to time a request."""
        return Clock(self._first, self._whole)

    def text(self, *, state: str, inside: int, stats: EngineStats | None) -> bytes:
        """All figures in Prometheus' format; without `stats` those of HTTP alone."""
        now = CollectorRegistry()
        now.register(_Now(state, inside, stats))
        return generate_latest(self._registry) + generate_latest(now)


class Clock:
    """Times one request."""

    def __init__(self, first: Histogram, whole: Histogram) -> None:
        self._begin = time.perf_counter()
        self._first: Histogram | None = first
        self._whole = whole

    def chunk(self) -> None:
        """Something has come; the first time counts."""
        if self._first is not None:
            self._first.observe(time.perf_counter() - self._begin)
            self._first = None

    def end(self) -> None:
        """It was answered in full."""
        self._whole.observe(time.perf_counter() - self._begin)


class _Now:
    """What is asked at the moment of reading."""

    def __init__(self, state: str, inside: int, stats: EngineStats | None) -> None:
        self._state, self._inside, self._stats = state, inside, stats

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("qanat_up", "Whether requests are answered.", float(self._state == "ready"))
        yield GaugeMetricFamily("qanat_requests_inside", "Requests under way.", self._inside)
        if self._stats is None:
            return
        for name, (told, read) in _COUNTERS.items():
            yield CounterMetricFamily(f"qanat_{name}", told, read(self._stats))
        for name, (told, read) in _GAUGES.items():
            yield GaugeMetricFamily(f"qanat_{name}", told, read(self._stats))
