"""Figures for Prometheus: what HTTP sees is counted here, what the engine did is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from qanat.engine.stats import WAIT_BOUNDS, EngineStats, Waits

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
    "pages_held": ("Those of replies that are computed; what is left is snapshots'.", lambda s: s.held_pages),
}
_WAITS: dict[str, tuple[str, Callable[[EngineStats], Waits]]] = {
    "first_token_seconds": ("From the queue to a reply's first token.", lambda s: s.first_token),
    "next_token_seconds": ("From a reply's token to its next.", lambda s: s.next_token),
}

# What routers and autoscalers in front of several servers look for, by the names that vLLM gave it: the
# production stack's router, the Gateway API's inference extension, llm-d, KServe. `model_name` is a label.
_ROUTERS_GAUGES: dict[str, tuple[str, Callable[[EngineStats], float]]] = {
    "num_requests_running": ("As qanat_sequences_running.", lambda s: s.running),
    "num_requests_waiting": ("As qanat_sequences_waiting.", lambda s: s.waiting),
    "kv_cache_usage_perc": ("qanat_pages_held of qanat_pages, 0 to 1.", lambda s: s.held_pages / s.pages),
}
_ROUTERS_COUNTERS: dict[str, tuple[str, Callable[[EngineStats], float]]] = {
    "prompt_tokens": ("Of all prompts, read or cached.", lambda s: s.prompt_tokens + s.cached_tokens),
    "generation_tokens": ("As qanat_output_tokens.", lambda s: s.output_tokens),
    "prefix_cache_queries": ("Of all prompts, read or cached.", lambda s: s.prompt_tokens + s.cached_tokens),
    "prefix_cache_hits": ("As qanat_cached_tokens.", lambda s: s.cached_tokens),
}
_ROUTERS_WAITS: dict[str, tuple[str, Callable[[EngineStats], Waits]]] = {
    "time_to_first_token_seconds": ("As qanat_first_token_seconds.", lambda s: s.first_token),
    "inter_token_latency_seconds": ("As qanat_next_token_seconds.", lambda s: s.next_token),
}


class Metrics:
    """One server's figures, since its start. The engine's begin anew with its process.

    Args:
        model: its name, a label of what routers read.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._registry = CollectorRegistry()
        self.answers = Counter(
            "qanat_http_answers", "Answers by path and status.", ("path", "status"), registry=self._registry
        )
        self.whole = Histogram(
            "qanat_answer_seconds",
            "From a request for text to the end of its answer.",
            buckets=SECONDS,
            registry=self._registry,
        )

    def text(self, *, state: str, inside: int, stats: EngineStats | None) -> bytes:
        """All figures in Prometheus' format; without `stats` those of HTTP alone."""
        now = CollectorRegistry()
        now.register(_Now(self._model, state, inside, stats))
        return generate_latest(self._registry) + generate_latest(now)


class _Now:
    """What is asked at the moment of reading."""

    def __init__(self, model: str, state: str, inside: int, stats: EngineStats | None) -> None:
        self._model, self._state, self._inside, self._stats = model, state, inside, stats

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("qanat_up", "Whether requests are answered.", float(self._state == "ready"))
        yield GaugeMetricFamily("qanat_requests_inside", "Requests under way.", self._inside)
        if self._stats is None:
            return
        for prefix, labels, counters, gauges, waits in (
            ("qanat_", {}, _COUNTERS, _GAUGES, _WAITS),
            ("vllm:", {"model_name": self._model}, _ROUTERS_COUNTERS, _ROUTERS_GAUGES, _ROUTERS_WAITS),
        ):
            yield from _figures(self._stats, prefix, labels, CounterMetricFamily, counters)
            yield from _figures(self._stats, prefix, labels, GaugeMetricFamily, gauges)
            for name, (told, read) in waits.items():
                yield _histogram(f"{prefix}{name}", told, labels, read(self._stats))


def _figures(
    stats: EngineStats,
    prefix: str,
    labels: dict[str, str],
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
    table: dict[str, tuple[str, Callable[[EngineStats], float]]],
) -> Iterator[Metric]:
    for name, (told, read) in table.items():
        family = kind(f"{prefix}{name}", told, labels=list(labels))
        family.add_metric(list(labels.values()), read(stats))
        yield family


def _histogram(name: str, told: str, labels: dict[str, str], waits: Waits) -> Metric:
    """Prometheus' buckets hold all that is at most their bound."""
    bounds = [*(str(bound) for bound in WAIT_BOUNDS), "+Inf"]
    buckets = list(zip(bounds, accumulate(waits.counts), strict=True))
    family = HistogramMetricFamily(name, told, labels=list(labels))
    family.add_metric(list(labels.values()), buckets, waits.seconds)
    return family
