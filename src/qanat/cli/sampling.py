"""From what was typed to `SamplingParams`: the model card's defaults, overridden, contradictions refused."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qanat.cli.input import InputError
from qanat.cli.options import SamplingOptions

if TYPE_CHECKING:
    from qanat.engine import LLM, SamplingParams
    from qanat.text import ChatTemplate

__all__ = [
    "SETTINGS",
    "describe",
    "parameters",
    "parse_bias",
    "parse_setting",
    "resolve_thinking",
    "typed_settings",
]

_CHOICE = ("temperature", "top_k", "top_p", "min_p", "seed")
"""What only matters where tokens are drawn, not where the likeliest one is taken."""


def parse_bias(entries: list[str]) -> dict[int, float]:
    """`["42=-1.5"]` -> {42: -1.5}."""
    bias: dict[int, float] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        try:
            token, amount = int(name), float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError(f"logit bias {entry!r} is not of the form ID=B, for example 42=-1.5")
        if token in bias:
            raise InputError(f"logit bias: token {token} is given twice")
        bias[token] = amount
    return bias


def _flag(text: str) -> bool:
    values = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
    if text.lower() not in values:
        raise ValueError
    return values[text.lower()]


SETTINGS: dict[str, tuple[Callable[[str], Any], str]] = {
    "temperature": (float, "a number from 0 up"),
    "top_k": (int, "a whole number, 0 is off"),
    "top_p": (float, "a number above 0, up to 1"),
    "min_p": (float, "a number from 0 to 1"),
    "repetition_penalty": (float, "a number above 0, 1 is off"),
    "presence_penalty": (float, "a number"),
    "frequency_penalty": (float, "a number"),
    "logit_bias": (lambda text: parse_bias(text.split()), "ID=B, several separated by spaces"),
    "seed": (int, "a whole number"),
    "max_tokens": (int, "a whole number"),
    "min_tokens": (int, "a whole number"),
    "stop": (lambda text: (text,), "a text that ends the reply"),
    "ignore_eos": (_flag, "on or off"),
    "thinking_budget": (int, "a whole number"),
}
"""Name -> (how its text is read, what it may be); the names are those of `SamplingParams`."""


def parse_setting(name: str, text: str) -> tuple[str, Any]:
    """One `/set NAME VALUE` -> (field of SamplingParams, its value)."""
    field = name.replace("-", "_")
    if field not in SETTINGS:
        raise InputError(f"no setting is called {name!r}; there are: {', '.join(SETTINGS)}")
    read, wanted = SETTINGS[field]
    try:
        return field, read(text)
    except ValueError:
        raise InputError(f"{field} must be {wanted}, not {text!r}") from None


def typed_settings(options: SamplingOptions) -> dict[str, Any]:
    """The sampling options that were typed, as fields of SamplingParams; contradictions are refused."""
    # By identity: `0 in (None, False)` is true, and a zero that was typed is not nothing.
    typed = {
        field.name: value
        for field in dataclasses.fields(options)
        if field.name != "greedy" and (value := getattr(options, field.name)) is not None
        if value is not False and value != []
    }
    if "logit_bias" in typed:
        typed["logit_bias"] = parse_bias(typed["logit_bias"])
    if "stop" in typed:
        typed["stop"] = tuple(typed["stop"])
    idle = [name for name in _CHOICE if name in typed]
    if options.greedy and idle:
        raise InputError(
            f"--greedy always takes the likeliest token: --{idle[0].replace('_', '-')} would do nothing"
        )
    idle = [name for name in idle if name != "temperature"]
    if options.temperature == 0 and idle:
        raise InputError(f"--temperature 0 is greedy: --{idle[0].replace('_', '-')} would do nothing")
    if options.ignore_eos and options.min_tokens is not None and not options.stop:
        raise InputError("--ignore-eos never ends early: --min-tokens would do nothing")
    return typed


def parameters(llm: LLM, settings: dict[str, Any], *, greedy: bool, thinking: bool) -> SamplingParams:
    """The model card's sampling (or greedy), with `settings` in place of its values.

    Where tokens are drawn and no seed is set, one is drawn here, so that it can be shown and used again.
    """
    from qanat.engine import SamplingParams
    from qanat.engine.defaults import model_card_params

    base = SamplingParams.greedy() if greedy else model_card_params(llm.checkpoint, thinking)
    params = dataclasses.replace(base, **settings)
    idle = [name for name in _CHOICE if name in settings and name != "temperature"]
    if not params.temperature and idle:
        raise InputError(
            f"this model's default is greedy, where {idle[0]} does nothing: set a temperature too"
        )
    if params.temperature and params.seed is None:
        params = dataclasses.replace(params, seed=secrets.randbelow(2**31))
    llm.check_params(params)
    return params


def describe(params: SamplingParams, *, seed: bool = True) -> str:
    """The values that shape the choice, in one line; with the seed, or without one that was not used yet."""
    if not params.temperature:
        parts = ["greedy"]
    else:
        parts = [f"{name} {getattr(params, name)}" for name in ("temperature", "top_k", "top_p", "min_p")]
        # An unlimited filter is no filter: leave it out.
        parts = [part for part in parts if part not in ("top_k 0", "top_p 1.0", "min_p 0.0", "min_p 0")]
    for name, off in (("repetition_penalty", 1.0), ("presence_penalty", 0.0), ("frequency_penalty", 0.0)):
        if getattr(params, name) != off:
            parts.append(f"{name.replace('_', ' ')} {getattr(params, name)}")
    if params.temperature and seed:
        parts.append(f"seed {params.seed}")
    return ", ".join(parts)


def resolve_thinking(template: ChatTemplate, wanted: bool | None) -> bool:
    """Whether the model will think, given the user's wish (None: the template's default).

    Raises:
        InputError: the template has no such switch, so the wish could only be ignored.
    """
    from qanat.text.dialects import starts_in_thought

    probe = [{"role": "user", "content": "hello"}]
    keywords: dict[str, Any] = {} if wanted is None else {"enable_thinking": wanted}
    thinks = starts_in_thought(template.render(probe, add_generation_prompt=True, **keywords))
    if wanted is not None and thinks != wanted:
        habit, option = ("never", "thinking") if wanted else ("always", "no-thinking")
        raise InputError(
            f"the chat template of this model {habit} opens a thought: --{option} would do nothing"
        )
    return thinks
