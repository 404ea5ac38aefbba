"""The arguments of the Ray Serve application, read from its configuration."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from qanat.backends import choose_backend
from qanat.errors import RequestError
from qanat.server.answering import default_names
from qanat.server.engine_client import EngineOptions
from qanat.server.http.settings import ServerSettings, read_names, read_origin

__all__ = ["RayArguments", "read_arguments"]


@dataclass(frozen=True, kw_only=True)
class RayArguments:
    """As the options of `qanat serve`, and how many replicas there are."""

    api_key_file: str
    """A file that lies on every node where an entrance runs; "none" asks for no keys."""
    replicas: int = 2
    entrances: int = 1
    """Processes that speak HTTP behind Ray's proxies."""
    model: str = "pocket"
    backend: Literal["auto", "cpu", "reference"] = "auto"
    weights: Literal["auto", "int8", "bf16", "f32"] = "auto"
    threads: int | None = None
    """Of each replica: Ray keeps as many processors for it. None: it keeps one, and a replica uses all."""
    revision: str | None = None
    offline: bool = False
    max_model_len: int | None = None
    memory: int | None = None
    """Bytes of each replica."""
    max_batch: int = 8
    max_waiting: int = 64
    served_model_name: tuple[str, ...] = ()
    allow_origin: tuple[str, ...] = ()
    request_timeout: float | None = None
    log: Literal["none", "text", "json"] = "none"
    """A line for each request on the standard output of its entrance, which Ray keeps among its logs."""
    drain: float = 30.0

    @property
    def keys(self) -> Path | None:
        """The file of keys."""
        return None if self.api_key_file == "none" else Path(self.api_key_file)

    @property
    def engine(self) -> EngineOptions:
        """What each replica loads."""
        return EngineOptions(
            model=self.model,
            backend=self.backend,
            weights=self.weights,
            threads=self.threads,
            revision=self.revision,
            offline=self.offline or None,
            max_model_len=self.max_model_len,
            max_batch=self.max_batch,
            memory=self.memory,
            max_waiting=self.max_waiting,
        )

    @property
    def settings(self) -> ServerSettings:
        """How each entrance behaves. What it lets in is its share of what all replicas take."""
        each = self.max_batch + self.max_waiting
        return ServerSettings(
            names=read_names(self.served_model_name or default_names(self.model)),
            key_file=self.keys,
            origins=tuple(read_origin(origin, keys=self.keys is not None) for origin in self.allow_origin),
            most_requests=max(1, self.replicas * each // self.entrances),
            request_timeout=self.request_timeout,
            log=self.log,
            drain=self.drain,
        )


_SEVERAL = ("served_model_name", "allow_origin")
"""Of which one may be given as it is, without a list."""
_LEAST = {
    **dict.fromkeys(("replicas", "entrances", "threads", "max_model_len", "memory", "max_batch"), 1),
    "max_waiting": 0,
    "request_timeout": 0.001,
    "drain": 0,
}


def read_arguments(values: dict[str, Any]) -> RayArguments:
    """The arguments as Ray gives them: typed from YAML, or texts from the command line.

    Raises:
        RequestError: one is unknown, missing, of the wrong type or out of range.
    """
    known = {field.name for field in dataclasses.fields(RayArguments)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise RequestError(f"no argument is called {unknown[0]}; there are: {', '.join(sorted(known))}")
    if "api_key_file" not in values:
        raise RequestError(
            "api_key_file is missing: Ray's proxies may be reached from other machines, and anybody there "
            'could use the model. Name a file of keys, or say "none" where nobody else reaches them'
        )
    several = {name: [values[name]] for name in _SEVERAL if isinstance(values.get(name), str)}
    try:
        read = msgspec.convert({**values, **several}, RayArguments, strict=False)
    except msgspec.ValidationError as error:
        raise RequestError(f"arguments of the application: {error}") from None
    for name, least in _LEAST.items():
        value = getattr(read, name)
        if value is not None and not least <= value < float("inf"):
            raise RequestError(f"{name} must be from {least} up, not {value}")
    _ = read.settings  # refuses names and origins that are none
    choose_backend(read.backend, read.weights, read.threads)  # refuses what contradicts itself
    return read
