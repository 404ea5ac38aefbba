"""Options that several commands share, declared once.

A command takes them as one argument each: `grouped` unfolds the dataclasses into single options for
typer, and folds what was typed back into objects.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Annotated, Any, get_type_hints

import typer

from qanat.cli import invocation
from qanat.cli.input import InputError
from qanat.cli.sizes import byte_count

__all__ = [
    "Backend",
    "CpuWeights",
    "ModelOptions",
    "SamplingOptions",
    "Weights",
    "also_model_option",
    "grouped",
    "model_option",
    "one_model",
    "threads_option",
]

model_option = typer.Option(
    "-m",
    "--model",
    metavar="MODEL",
    help="A model folder, a hub id such as Qwen/Qwen3.5-2B, or the built-in `pocket`.",
    rich_help_panel="Model",
)

threads_option = typer.Option(
    "--threads",
    metavar="N",
    min=1,
    max=1024,
    help="Threads that compute, on the CPU backend; the physical cores if not given, and more do not help.",
    rich_help_panel="Model",
)

also_model_option = typer.Option("-m", "--model", metavar="MODEL", help="The same as the argument.")
"""For the commands that are about a model, and take it as their argument."""


def one_model(command: str, argument: str | None, option: str | None) -> str:
    """The model of a command that takes it either way.

    Raises:
        InputError: none was named, or two.
    """
    if argument is not None and option is not None and argument != option:
        raise InputError(f"two models are named, {argument} and -m {option}: choose one")
    model = argument if argument is not None else option
    if model is None:
        usage = invocation.command(f"{command} --help")
        raise InputError(f"name a model: a folder, a hub id, or pocket; `{usage}` shows the usage")
    return model


class Weights(StrEnum):
    """How weights are held while computing."""

    auto = "auto"
    int8 = "int8"
    bf16 = "bf16"
    f32 = "f32"


class CpuWeights(StrEnum):
    """How the CPU backend holds them."""

    auto = "auto"
    int8 = "int8"
    bf16 = "bf16"


class Backend(StrEnum):
    """What computes."""

    auto = "auto"
    cpu = "cpu"
    reference = "reference"


def _model(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Model", **more)


def _sampling(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Sampling", **more)


@dataclass(frozen=True)
class ModelOptions:
    """Which model, and how it is loaded."""

    model: Annotated[str, model_option] = "pocket"
    weights: Annotated[Weights, _model("Number format of the weights while computing.", "--weights")] = (
        Weights.auto
    )
    backend: Annotated[Backend, _model("What computes.", "--backend")] = Backend.auto
    threads: Annotated[int | None, threads_option] = None
    max_model_len: Annotated[
        int | None,
        _model(
            "Longest prompt plus reply, in tokens.", "--max-model-len", "--context", metavar="TOKENS", min=1
        ),
    ] = None
    memory: Annotated[
        str | None,
        _model(
            "The most memory to take, weights included: 8GB, 7.5GiB, 500MB; nine tenths of what is free "
            "if not given.",
            "--memory",
            metavar="SIZE",
        ),
    ] = None
    revision: Annotated[
        str | None, _model("Branch, tag or commit on the hub.", "--revision", metavar="REVISION")
    ] = None
    offline: Annotated[bool, _model("Never ask the hub; use only what is on this disk.", "--offline")] = False

    @property
    def memory_bytes(self) -> int | None:
        """`memory` in bytes; InputError if it is no size."""
        return None if self.memory is None else byte_count(self.memory, "--memory")


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are chosen. What is not given keeps the default of the model card."""

    greedy: Annotated[bool, _sampling("Always the likeliest token.", "--greedy")] = False
    temperature: Annotated[
        float | None, _sampling("Sharpness of the choice; 0 is greedy.", "--temperature", metavar="T")
    ] = None
    top_k: Annotated[
        int | None, _sampling("Choose among the K likeliest tokens; 0 is off.", "--top-k", metavar="K")
    ] = None
    top_p: Annotated[
        float | None,
        _sampling("Choose among the likeliest tokens of total probability P.", "--top-p", metavar="P"),
    ] = None
    min_p: Annotated[
        float | None,
        _sampling("Drop tokens below P times the likeliest one's probability.", "--min-p", metavar="P"),
    ] = None
    repetition_penalty: Annotated[
        float | None,
        _sampling(
            "Divide logits of tokens seen in prompt or reply by R; 1 is off.",
            "--repetition-penalty",
            metavar="R",
        ),
    ] = None
    presence_penalty: Annotated[
        float | None,
        _sampling(
            "Subtract A from logits of tokens already in the reply.", "--presence-penalty", metavar="A"
        ),
    ] = None
    frequency_penalty: Annotated[
        float | None,
        _sampling("Subtract A for each time it is in the reply.", "--frequency-penalty", metavar="A"),
    ] = None
    logit_bias: Annotated[
        list[str] | None,
        _sampling(
            "Add B to the logit of token ID; may be given several times.", "--logit-bias", metavar="ID=B"
        ),
    ] = None
    seed: Annotated[
        int | None,
        _sampling("Makes the choice repeatable; drawn and printed if not given.", "--seed", metavar="N"),
    ] = None
    max_tokens: Annotated[
        int | None, _sampling("End the reply after N tokens.", "--max-tokens", metavar="N")
    ] = None
    min_tokens: Annotated[
        int | None, _sampling("Do not let the reply end before N tokens.", "--min-tokens", metavar="N")
    ] = None
    stop: Annotated[
        list[str] | None,
        _sampling("End the reply before this text; may be given several times.", "--stop", metavar="TEXT"),
    ] = None
    ignore_eos: Annotated[bool, _sampling("Go on after the model's end tokens.", "--ignore-eos")] = False
    thinking_budget: Annotated[
        int | None,
        _sampling(
            "Close a thought after N tokens, so that the answer begins.", "--thinking-budget", metavar="N"
        ),
    ] = None


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Unfold the dataclass parameters of `command` into its options.

    `def run(prompt: ..., model: ModelOptions)` gets the parameters `prompt, model, weights, ...`.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    unfolded: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        hint = hints[name]
        if not is_dataclass(hint):
            unfolded.append(
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=parameter.default, annotation=hint
                )
            )
            continue
        groups[name] = hint
        inner = get_type_hints(hint, include_extras=True)
        unfolded += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=inner[field.name],
            )
            for field in fields(hint)
        ]

    @functools.wraps(command)
    def folded(**given: Any) -> None:
        objects = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **objects)

    folded.__signature__ = inspect.Signature(unfolded)  # type: ignore[attr-defined]
    folded.__annotations__ = {parameter.name: parameter.annotation for parameter in unfolded}
    del folded.__wrapped__  # typer must see the unfolded parameters only
    return folded
