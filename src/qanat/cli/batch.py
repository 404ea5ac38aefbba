"""`qanat batch`: a file of requests in, a file of results out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qanat.cli.batch_output import ResultFile, Results, ResultStream, succeeded
from qanat.cli.extras import require_extra
from qanat.cli.input import InputError
from qanat.cli.options import ModelOptions, grouped
from qanat.cli.output import is_terminal, note
from qanat.cli.replies import open_model, plan_memory

if TYPE_CHECKING:
    from qanat.engine.memory import MemoryPlan
    from qanat.server.batch_lines import BatchLine

__all__ = ["FAILURES", "batch"]

FAILURES = 1
"""Exit code: every line has its result, but some are no answers."""
MAX_INPUT = 1_000_000_000
"""Bytes of the largest file of requests: it is held in memory."""


@grouped
def batch(
    requests: Annotated[
        str,
        typer.Argument(
            metavar="IN", help="Requests in OpenAI's batch format, one a line; - is standard input."
        ),
    ],
    results: Annotated[
        str, typer.Argument(metavar="OUT", help="Where results go as they finish; - is standard output.")
    ],
    *,
    max_batch: Annotated[
        int, typer.Option(metavar="N", min=1, max=1024, help="Sequences computed at once.")
    ] = 8,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N", help="A request without a seed gets one made of this number and its custom_id."
        ),
    ] = 0,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Let a cluster of Ray's answer: its address, auto for the one that this machine belongs to, "
            "local for this machine alone.",
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=10_000, help="With --ray: models that answer, 2 if not given."),
    ] = None,
    model: ModelOptions,
) -> None:
    """Answer a file of requests.

    A run that was stopped or killed goes on where it was when the same command is given again.
    """
    from qanat.server.answering import default_names
    from qanat.server.batch_lines import RESULT_ID, read_lines
    from qanat.server.batch_run import answer_lines

    if ray is None and replicas is not None:
        raise InputError("--replicas are a cluster's: name it with --ray, or leave them out")
    if ray is not None:
        require_extra("ray", ("msgspec", "ray", "pyarrow"), wanted_by="--ray")
    where = "standard input" if requests == "-" else requests
    lines = read_lines(
        _read(requests), where=where, options=partial(_options, model, max_batch, ray is not None), seed=seed
    )
    if not lines:
        raise InputError(f"{where} holds no requests")
    out: Results
    if results == "-":
        if sys.stdout is None or sys.stdout.closed:
            raise InputError("there is no standard output for the results: it was closed by the caller")
        out, done, failed = ResultStream(), set[str](), 0
    else:
        expected = {line.result_id for line in lines}
        out = file = ResultFile(Path(results), expected=expected, prefix=RESULT_ID)
        done, failed = file.done, file.failed
    with closing(out):
        left = [line for line in lines if line.result_id not in done]
        if done:
            note(f"{results} has {len(done)} of {len(lines)} results already")
        if left:
            names = default_names(model.model)
            if ray is None:
                answers = answer_lines(
                    open_model(model, sequences=max_batch), left, names=names, room=max_batch
                )
            else:
                answers = _on_cluster(ray, replicas or 2, left, model, max_batch, names)
            failed += _write(answers, out, len(lines), len(done), to_file=results != "-")
    if failed:
        note(f"{failed} of {len(lines)} requests failed: their results say why")
        raise typer.Exit(FAILURES)


def _read(name: str) -> bytes:
    if name == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise InputError("there is no standard input to read: it was closed by the caller")
        return sys.stdin.buffer.read()
    try:
        with Path(name).open("rb") as file:
            data = file.read(MAX_INPUT + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        raise InputError(f"{name}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_INPUT:
        raise InputError(f"{name} has more than {MAX_INPUT // 10**9} GB: cut it into several")
    return data


def _options(model: ModelOptions, sequences: int, elsewhere: bool) -> str:
    """What decides the results besides the requests: the model, wherever it lies, and how it is computed."""
    name, backend, planned = _planned(model, sequences, elsewhere=elsewhere)
    return "\0".join([name, backend, planned.weights, str(planned.context)])


def _planned(model: ModelOptions, sequences: int, *, elsewhere: bool) -> tuple[str, str, MemoryPlan]:
    """The model's folder, the backend and the plan; memory is not ours to count where others compute."""
    from qanat.backends import choose_backend
    from qanat.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(model.model, revision=model.revision, offline=model.offline or None)
    backend = choose_backend(model.backend.value, model.weights.value, model.threads)
    # Memory may decide the form of the weights and the longest reply: what was decided counts.
    planned = plan_memory(checkpoint, backend, model, sequences, available=1 << 62 if elsewhere else None)
    return checkpoint.path.resolve().name, backend, planned


def _on_cluster(
    address: str, workers: int, lines: list[BatchLine], model: ModelOptions, sequences: int, names: list[str]
) -> Iterator[dict[str, Any]]:
    """The results of a cluster, whose workers all compute as it was planned here."""
    from qanat.server.engine_client import EngineOptions
    from qanat.server.ray_batch import Cluster, answer_lines_on

    _, backend, planned = _planned(model, sequences, elsewhere=True)
    options = EngineOptions(
        model=model.model,
        backend=backend,
        weights=planned.weights,
        threads=model.threads,
        revision=model.revision,
        offline=model.offline or None,
        max_model_len=planned.context,
        max_batch=sequences,
        memory=model.memory_bytes,
    )
    return answer_lines_on(Cluster(address, workers), lines, options=options, names=names)


def _write(answers: Iterator[dict[str, Any]], out: Results, total: int, done: int, *, to_file: bool) -> int:
    """Write results as they come; returns how many are no answers."""
    failed = tokens = 0
    start, before = time.perf_counter(), done
    visible = is_terminal(sys.stderr) and (to_file or not sys.stdout.isatty())
    try:
        with closing(answers), _progress(total, done, visible=visible) as show:  # type: ignore[type-var]
            for result in answers:
                out.append(result)
                done += 1
                if succeeded(result):
                    tokens += result["response"]["body"]["usage"]["completion_tokens"]
                else:
                    failed += 1
                show(done, tokens / (time.perf_counter() - start))
    except KeyboardInterrupt:
        again = "; the same command goes on from there" if to_file else ""
        note(f"stopped with {done} of {total} results{again}")
        raise
    seconds = time.perf_counter() - start
    note(f"{done - before} results in {seconds:.1f} s; {tokens} reply tokens at {tokens / seconds:.1f} tok/s")
    return failed


@contextmanager
def _progress(total: int, done: int, *, visible: bool) -> Iterator[Callable[[int, float], None]]:
    """A bar on the screen, where it spoils nothing; what is yielded moves it: results, tokens a second."""
    if not visible:
        yield lambda done, rate: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:.0f} tok/s"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bar:
        task = bar.add_task("", total=total, completed=done, rate=0.0)
        yield lambda done, rate: bar.update(task, completed=done, rate=rate)
