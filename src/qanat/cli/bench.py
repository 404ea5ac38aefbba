"""`qanat bench`: how fast a model runs here, beside what the machine can do."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from qanat.cli.options import CpuWeights, model_option, threads_option
from qanat.cli.output import bytes_text, print_json
from qanat.cli.terminal import Status

if TYPE_CHECKING:
    from qanat.bench.suite import Decode, Report

__all__ = ["bench"]


def bench(
    model: Annotated[str, model_option] = "pocket",
    weights: Annotated[CpuWeights, typer.Option(help="Number format of the weights.")] = CpuWeights.auto,
    threads: Annotated[int | None, threads_option] = None,
    prompt: Annotated[int, typer.Option(metavar="TOKENS", min=1, help="Length of the prompt.")] = 512,
    context: Annotated[
        int, typer.Option(metavar="TOKENS", min=1, help="Tokens behind a sequence with a long past.")
    ] = 16384,
    sequences: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Sequences that decode together.")
    ] = 8,
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Tokens decoded in a round.")] = 16,
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Rounds; the medians are shown.")] = 5,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never ask the hub.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Measure a model on the CPU backend: prompt, decoding, memory, start, and the machine's ceilings."""
    from qanat.bench.suite import Plan, measure
    from qanat.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(model, revision=revision, offline=offline or None)
    status = Status(worth_a_line=True)
    try:
        report = measure(
            checkpoint,
            weights=weights.value,
            threads=threads,
            what=Plan(prompt, context, sequences, steps, rounds),
            progress=status.show,
        )
    finally:
        status.clear()
    if as_json:
        print_json({**asdict(report), "over_bytes": report.start.over_bytes})
    else:
        _print(report)


def _print(report: Report) -> None:
    ceilings, start, prompt = report.ceilings, report.start, report.prefill
    print(
        f"{report.model}, {report.weights}, threads {report.threads}, {ceilings.instruction_set}; "
        f"medians of {report.rounds}"
    )
    print(f"{'':<34}{'tok/s':>10}{'GB/s':>9}{'Gop/s':>9}{'of the ceiling':>16}{'to decode':>11}")
    label = f"prompt of {prompt.tokens} tokens"
    print(
        f"{label:<34}{prompt.tokens_per_second:>10.1f}{'':>9}{prompt.gop_per_second:>9.1f}"
        f"{prompt.share_of_ceiling:>16.0%}"
    )
    for row in (report.decode, report.decode_long, report.decode_batch):
        print(
            f"{_label(row):<34}{row.tokens_per_second:>10.1f}{row.gb_per_second:>9.2f}{'':>9}"
            f"{row.share_of_ceiling:>16.0%}"
            f"{row.tokens_per_second / report.decode.tokens_per_second:>11.2f}"
        )
    for threads, read in ceilings.read_gb_s.items():
        label = f"ceilings, {threads} thread{'s' * (threads > 1)}: int8, float32"
        rates = f"{ceilings.int8_gop_s[threads]:.0f}, {ceilings.f32_gop_s[threads]:.0f}"
        print(f"{label:<34}{'':>10}{read:>9.1f}{rates:>9}")
    rows = [
        (
            "load to first token",
            f"{start.load_seconds:.2f} s; {start.process_seconds:.2f} s with the process",
        ),
        (
            "memory",
            f"{bytes_text(start.peak_bytes)} at most: weights {bytes_text(start.weights_bytes)}, "
            f"state {bytes_text(start.state_bytes)}, all else {bytes_text(start.over_bytes)}",
        ),
        ("Python in a step", f"{1000 * report.python_seconds_per_step:.2f} ms, at most"),
    ]
    for name, value in rows:
        print(f"{name:<34}{value}")


def _label(row: Decode) -> str:
    if row.sequences > 1:
        return f"decode, {row.sequences} sequences at once"
    return f"decode after {row.context} tokens"
