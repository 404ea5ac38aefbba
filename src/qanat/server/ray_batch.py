"""Answering the lines of a batch on a cluster, by Ray Data (extra `ray`): each worker has a model of its own.

Results are those of `answer_lines`, and so is what they do not depend on: who answers, and beside whom.
"""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from qanat.errors import QanatError, RequestError
from qanat.server.batch_lines import BatchLine
from qanat.server.batch_run import answer_lines

if TYPE_CHECKING:
    from qanat.server.engine_client import EngineOptions

__all__ = ["Cluster", "answer_lines_on"]

PIECE = 4
"""Lines that a worker is given at a time, for each sequence that it computes at once. Their results come
together, and are computed again where it dies."""

REACH = 10.0
"""Seconds until a connection to a cluster must stand."""


@dataclass(frozen=True)
class Cluster:
    """Where, and on how many."""

    address: str
    """"local": this machine alone; "auto": the cluster that it belongs to; else the address of one."""
    workers: int


def answer_lines_on(
    cluster: Cluster, lines: Iterable[BatchLine], *, options: EngineOptions, names: list[str]
) -> Iterator[dict[str, Any]]:
    """As `answer_lines`. Workers that die are started again, and what they were given is answered again.

    Args:
        cluster: who computes.
        lines: the requests.
        options: what each worker loads; `threads` are also the processors that Ray keeps for it.
        names: under which requests may ask for the model.

    Raises:
        QanatError: the cluster cannot be reached, or a worker cannot load the model.
    """
    import ray
    from ray.data import ActorPoolStrategy, DataContext, from_items

    rows = [{"line": _pack(line)} for line in lines]
    piece = min(PIECE * options.max_batch, max(1, math.ceil(len(rows) / cluster.workers)))
    _connect(cluster)
    try:
        DataContext.get_current().enable_progress_bars = False
        results = from_items(rows, override_num_blocks=math.ceil(len(rows) / piece)).map_batches(
            _Worker,
            fn_constructor_args=(options, names),
            batch_size=piece,
            compute=ActorPoolStrategy(size=cluster.workers),
            num_cpus=options.threads or 1,
        )
        for row in results.iter_rows():
            yield json.loads(row["result"])
    except ray.exceptions.RayError as error:
        raise _told(error) from None
    finally:
        ray.shutdown()


class _Worker:
    """A model in an actor of Ray's."""

    def __init__(self, options: EngineOptions, names: list[str]) -> None:
        from qanat.engine import LLM

        self._llm = LLM(**asdict(options))
        self._names, self._room = names, options.max_batch

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """Answer a piece of the lines."""
        lines = [_unpack(line) for line in batch["line"]]
        found = answer_lines(self._llm, lines, names=self._names, room=self._room)
        return {"result": [json.dumps(result) for result in found]}


def _connect(cluster: Cluster) -> None:
    import ray

    if cluster.address not in ("local", "auto"):
        _reach(cluster.address)
    more = {"include_dashboard": False} if cluster.address == "local" else {}
    try:
        ray.init(cluster.address, log_to_driver=False, logging_level="error", **more)
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise RequestError(
            f"no cluster of Ray's at {cluster.address}: {' '.join(str(error).split())}"
        ) from None
    if cluster.workers > ray.cluster_resources().get("CPU", 0):
        with suppress(Exception):
            ray.shutdown()
        raise RequestError(
            f"the cluster has too few processors for {cluster.workers} workers: ask for fewer replicas"
        )


def _reach(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would try for minutes."""
    parts = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or port is None:
        raise RequestError(f"the address of a cluster is local, auto or HOST:PORT, not {address}")
    try:
        socket.create_connection((host, port), REACH).close()
    except OSError as error:
        raise RequestError(f"no cluster of Ray's at {address}: {error.strerror or error}") from None


def _told(error: Exception) -> QanatError:
    """A worker's error, in its own words if it is one of ours."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, QanatError):
            return RequestError(f"a worker cannot answer: {cause}")
        cause = cause.__cause__ or getattr(cause, "cause", None)
    return RequestError(f"the cluster failed: {' '.join(str(error).split())[-500:]}")


def _pack(line: BatchLine) -> str:
    return json.dumps([line.number, line.data.decode("latin-1"), line.custom_id, line.digest, line.seed])


def _unpack(text: str) -> BatchLine:
    number, data, custom_id, digest, seed = json.loads(text)
    return BatchLine(number, data.encode("latin-1"), custom_id, digest, seed)
