"""`qanat serve`: a model behind HTTP."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from qanat.cli.extras import require_extra
from qanat.cli.input import InputError
from qanat.cli.options import ModelOptions, grouped
from qanat.cli.output import note
from qanat.cli.replies import announce_model

__all__ = ["serve"]

_NEEDED = ("starlette", "uvicorn", "h11", "msgspec", "prometheus_client")


def _option(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Server", **more)


class LogForm(StrEnum):
    """How requests are logged."""

    none = "none"
    text = "text"
    json = "json"


@grouped
def serve(
    *,
    host: Annotated[str, _option("Address to listen on.", "--host", metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[
        int, _option("Port to listen on; 0 takes any that is free.", "--port", metavar="N", min=0, max=65535)
    ] = 8000,
    max_batch: Annotated[
        int, _option("Sequences computed at once.", "--max-batch", metavar="N", min=1, max=1024)
    ] = 8,
    max_waiting: Annotated[
        int,
        _option(
            "Sequences that may wait beyond those; more are refused with 429.",
            "--max-waiting",
            metavar="N",
            min=0,
            max=100_000,
        ),
    ] = 64,
    api_key_file: Annotated[
        Path | None,
        _option(
            "Clients must show a key from this file, one a line; read again when it changes.",
            "--api-key-file",
            metavar="FILE",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        _option(
            "Let pages of this site use the server, as https://example.org; may be given several times.",
            "--allow-origin",
            metavar="ORIGIN",
        ),
    ] = None,
    served_model_name: Annotated[
        list[str] | None,
        _option(
            "What clients call the model, instead of MODEL; may be given several times.",
            "--served-model-name",
            metavar="NAME",
        ),
    ] = None,
    request_timeout: Annotated[
        float | None,
        _option("End answers that take longer.", "--request-timeout", metavar="SECONDS", min=0.001),
    ] = None,
    drain: Annotated[
        float,
        _option(
            "How long answers under way may take once the server is told to stop.",
            "--drain",
            metavar="SECONDS",
            min=0,
        ),
    ] = 30.0,
    log: Annotated[
        LogForm,
        _option("How requests are written to the standard output, a line each.", "--log"),
    ] = LogForm.none,
    restart_engine: Annotated[
        bool, _option("Start the engine's process again if it dies.", "--restart-engine")
    ] = False,
    model: ModelOptions,
) -> None:
    """Serve a model in OpenAI's dialect of HTTP."""
    require_extra("serve", _NEEDED, wanted_by="serve")
    from qanat.server.answering import default_names
    from qanat.server.engine_client import EngineOptions
    from qanat.server.http.run import run_server
    from qanat.server.http.settings import ServerSettings, read_names, read_origin

    origins = tuple(read_origin(origin, keys=api_key_file is not None) for origin in allow_origin or ())
    for option, seconds in (("--request-timeout", request_timeout), ("--drain", drain)):
        if seconds is not None and not math.isfinite(seconds):
            raise InputError(f"{option} must be a number of seconds, not {seconds}")
    settings = ServerSettings(
        names=read_names(served_model_name or default_names(model.model)),
        host=host,
        port=port,
        key_file=api_key_file,
        origins=origins,
        most_requests=max_batch + max_waiting,
        log=log.value,
        request_timeout=request_timeout,
        drain=drain,
    )
    options = EngineOptions(
        model=model.model,
        backend=model.backend.value,
        weights=model.weights.value,
        threads=model.threads,
        revision=model.revision,
        offline=model.offline or None,
        max_model_len=model.max_model_len,
        max_batch=max_batch,
        memory=model.memory_bytes,
        max_waiting=max_waiting,
    )
    run_server(
        settings,
        options,
        restart=restart_engine,
        tell=note,
        before=lambda: announce_model(model, sequences=max_batch),
    )
