"""The Ray Serve application: entrances that speak HTTP, and replicas that compute.

`serve run qanat.server.ray_serve.application:build api_key_file=none` starts it on this machine.
"""

from __future__ import annotations

import secrets
from typing import Any

from ray import serve
from ray.serve.config import RequestRouterConfig
from starlette.types import ASGIApp

from qanat.server.http.api_keys import ApiKeys
from qanat.server.http.app import create_app
from qanat.server.http.service import Service
from qanat.server.ray_serve.arguments import read_arguments
from qanat.server.ray_serve.engine import RayEngine
from qanat.server.ray_serve.replica import EngineReplica
from qanat.server.ray_serve.router import PrefixAffineRouter

__all__ = ["build"]

ENGINE, ENTRANCE = "engine", "entrance"
NOTICE = 1.0
"""Seconds between two of Ray's looks at whether a replica lives; a death it has not seen is not replaced."""
SIDE_ROOM = 16
"""Questions that a replica takes beside its requests."""


def build(arguments: dict[str, Any]) -> Any:
    """The application, as `serve run` and `serve deploy` want it. RequestError."""
    read = read_arguments(arguments)
    settings, keys = read.settings, read.keys
    if keys is not None:
        ApiKeys(keys)  # refused here, where somebody reads it
    # Every entrance makes the same salt of a key, or a conversation would find its prefix only by luck.
    secret = secrets.token_bytes(32)

    def enter() -> ASGIApp:
        """Called by Ray in the event loop of an entrance."""
        application = serve.get_replica_context().app_name

        def running() -> int:
            known = serve.status().applications.get(application)
            deployment = None if known is None else known.deployments.get(ENGINE)
            return 0 if deployment is None else deployment.replica_states.get("RUNNING", 0)

        engine = RayEngine(serve.get_deployment_handle(ENGINE, application), running)
        return create_app(Service(engine, settings), None if keys is None else ApiKeys(keys, secret=secret))

    replica = serve.deployment(
        EngineReplica,
        name=ENGINE,
        num_replicas=read.replicas,
        ray_actor_options={"num_cpus": read.threads or 1},
        max_ongoing_requests=read.max_batch + read.max_waiting + SIDE_ROOM,
        graceful_shutdown_timeout_s=read.drain,
        health_check_period_s=NOTICE,
        request_router_config=RequestRouterConfig(
            request_router_class=f"{PrefixAffineRouter.__module__}:{PrefixAffineRouter.__name__}",
            request_router_kwargs={"room": read.max_batch},
        ),
    )
    entrance = serve.deployment(
        serve.ingress(enter)(),
        name=ENTRANCE,
        num_replicas=read.entrances,
        ray_actor_options={"num_cpus": 0},
        max_ongoing_requests=settings.most_connections,
        graceful_shutdown_timeout_s=read.drain,
    )
    # Bound as an argument, so that Ray deploys it too; it is found by its name.
    return entrance.bind(replica.bind(read.engine))
