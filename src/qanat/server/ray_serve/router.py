"""The prefix-affine route, as Ray Serve's routers are made. Imported by Ray, by its name."""

from __future__ import annotations

from typing import Any

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

from qanat.server.affinity import rendezvous

__all__ = ["PrefixAffineRouter"]


class PrefixAffineRouter(RequestRouter):  # type: ignore[misc]
    """Sends a conversation where it was before, unless it would have to wait there and need not elsewhere."""

    def initialize_state(self, room: int) -> None:
        """Called by Ray. room: requests that a replica computes at once; more wait."""
        self._room = room

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Called by Ray: ranks of replicas. In the first that has any room the shortest queue is taken."""
        if pending_request is None:
            return [candidate_replicas]
        # Else Ray asks again at once, and for ever, where all are full.
        pending_request.routing_context.should_backoff = True
        key = _key(pending_request)
        if not key:
            return [candidate_replicas]
        first, *others = rendezvous(key, candidate_replicas, lambda replica: replica.replica_id.unique_id)
        queue = self.replica_queue_len_cache.get(first.replica_id)
        if queue is not None and queue >= self._room:
            return [[replica for replica in candidate_replicas if self._has_room(replica)], [first], others]
        return [[first], others]

    def _has_room(self, replica: RunningReplica) -> bool:
        queue = self.replica_queue_len_cache.get(replica.replica_id)
        return queue is None or queue < self._room


def _key(request: Any) -> str:
    """The first argument of `EngineReplica`'s methods; blank where any replica is as good."""
    return str(request.args[0]) if request.args else ""
