"""The whole measurement: rounds in which every figure and every ceiling has its turn, and their medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from qanat.backends.cpu.ceilings import Ceilings, measure_ceilings
from qanat.backends.cpu.kernel_cache import compilation_notice
from qanat.backends.cpu.pack_cache import limit_bytes
from qanat.backends.cpu.threads import choose_threads
from qanat.bench.python_time import python_seconds_per_step
from qanat.bench.start import REPLY, Start, measure_start
from qanat.bench.steps import Sequences, bytes_read_here, open_model, operations
from qanat.checkpoint import Checkpoint
from qanat.engine.memory import STEP_TOKENS, plan
from qanat.errors import RequestError
from qanat.model import require_runnable

__all__ = ["Decode", "Plan", "Prefill", "Report", "measure"]


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    prompt: int = 512
    """Tokens of the prompt."""
    context: int = 16384
    """Tokens behind a sequence with a long past; less where the model or the memory ends earlier."""
    sequences: int = 8
    """Sequences that decode together."""
    steps: int = 16
    """Tokens that are decoded in one round."""
    rounds: int = 5


@dataclass(frozen=True)
class Prefill:
    """A prompt, read in the engine's chunks."""

    tokens: int
    seconds: float
    tokens_per_second: float
    gop_per_second: float
    """1e9 operations of the linear layers per second."""
    share_of_ceiling: float
    """Of the operations that loops without memory do."""


@dataclass(frozen=True)
class Decode:
    """Steps of one token for each of some sequences."""

    sequences: int
    context: int
    seconds_per_step: float
    tokens_per_second: float
    """Of all sequences together."""
    gb_per_second: float
    """1e9 bytes that must be read: weights, recurrent state, keys and values (`steps.bytes_read`)."""
    share_of_ceiling: float
    """Of the bytes that loops which only read get."""


@dataclass(frozen=True)
class Report:
    """All figures: medians of the rounds."""

    model: str
    weights: str
    threads: int
    rounds: int
    prefill: Prefill
    decode: Decode
    decode_long: Decode
    decode_batch: Decode
    start: Start
    python_seconds_per_step: float
    ceilings: Ceilings


def measure(
    checkpoint: Checkpoint,
    *,
    weights: str = "auto",
    threads: int | None = None,
    what: Plan | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Report:
    """Measure a model on the CPU backend.

    Args:
        checkpoint: the model.
        weights: "int8", "bf16", or "auto" as the engine chooses.
        threads: how many compute; None: the physical cores.
        what: the sizes.
        progress: told what is measured next.

    Raises:
        OutOfMemoryError, UnsupportedError: the model cannot run here.
        RequestError: a mode that the backend lacks, or sizes beyond the model's context.
    """
    what = what or Plan()
    config, room = checkpoint.config.text, what.steps * (what.rounds + 1)
    require_runnable(config)
    limit_bytes()  # refused before anything is announced
    threads = choose_threads(threads)
    most = config.max_position_embeddings
    for what_takes, needed in (("the prompt and its reply take", what.prompt + REPLY), ("rounds take", room)):
        if needed > most:
            raise RequestError(f"{what_takes} {needed} tokens, but the model's context is {most}")
    planned = plan(config, backend="cpu", weights=weights, sequences=what.sequences + 2, context=None)
    weights = planned.weights
    notice = compilation_notice(weights)
    if notice:
        progress(notice)
    context = max(0, min(what.context, most - room, planned.context - room))

    progress("measuring Python's part of a step")
    python = python_seconds_per_step(checkpoint.config, weights)
    progress("loading the weights")
    model = open_model(checkpoint, weights, threads)
    decoding = {
        "decode": Sequences(model, 1, 0, room),
        "decode_long": Sequences(model, 1, context, room),
        "decode_batch": Sequences(model, what.sequences, 0, room),
    }
    taken: dict[str, list[float]] = {name: [] for name in (*decoding, "prefill")}
    ceilings: list[Ceilings] = []
    for round in range(what.rounds + 1):  # the first one warms up and does not count
        progress(f"measuring: round {round} of {what.rounds}" if round else "warming up")
        ceilings.append(measure_ceilings(threads, rounds=1))
        for name, sequences in decoding.items():
            taken[name].append(_seconds(partial(sequences.read, what.steps, 1)))
        prompt = Sequences(model, 1, 0, what.prompt)
        taken["prefill"].append(_seconds(partial(prompt.read, what.prompt, STEP_TOKENS)))
        del prompt
    medians = {name: statistics.median(times[1:]) for name, times in taken.items()}
    ceiling = Ceilings.medians(ceilings[1:])
    del model, decoding  # the process that starts now holds the weights again
    progress("measuring a start")
    start = measure_start(str(checkpoint.path), weights, threads, what.prompt)

    def decode(name: str, count: int, behind: int) -> Decode:
        seconds = medians[name] / what.steps
        rate = bytes_read_here(config, weights, behind, count) / seconds / 1e9
        return Decode(count, behind, seconds, count / seconds, rate, rate / ceiling.best_read_gb_s)

    rate = operations(config, what.prompt) / medians["prefill"] / 1e9
    limit = (ceiling.int8_gop_s if weights == "int8" else ceiling.f32_gop_s)[threads]
    return Report(
        checkpoint.name,
        weights,
        threads,
        what.rounds,
        Prefill(what.prompt, medians["prefill"], what.prompt / medians["prefill"], rate, rate / limit),
        decode("decode", 1, 0),
        decode("decode_long", 1, context),
        decode("decode_batch", what.sequences, 0),
        start,
        python,
        ceiling,
    )


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
