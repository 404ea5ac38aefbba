"""What a request may ask of sampling and stopping, checked when it is built."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qanat.engine.structure import Structure
from qanat.errors import RequestError

__all__ = ["MAX_LOGPROBS", "MAX_STOPS", "SamplingParams", "shown"]

MAX_LOGPROBS = 20
MAX_STOPS = 16
_INHERITED = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "max_tokens",
    "min_tokens",
)
_MOST = 2**63 - 1  # whole numbers beyond are slips, and Python cannot even print the longest
_CUTS = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How tokens are chosen and when a reply ends (docs/api.md; the exact rules: docs/numerics.md).

    A field that is None keeps the default of whoever answers: `LLM.generate` and `LLM.chat` follow the
    checkpoint's generation_config.json, as transformers does.

    Raises:
        RequestError: a value is of the wrong type or out of range; the message names the field.
    """

    temperature: float | None = None
    """0 is greedy: always the largest logit. Else logits are divided by it."""
    top_k: int | None = None
    """Draw among the k largest logits and their ties; 0 is off."""
    top_p: float | None = None
    """Draw among the most probable tokens that together hold this share; 1 is off."""
    min_p: float | None = None
    """Drop tokens less probable than this share of the most probable one; 0 is off."""
    repetition_penalty: float | None = None
    """Divide positive (multiply negative) logits of tokens in prompt or reply; 1 is off."""
    presence_penalty: float | None = None
    """Subtract from the logits of tokens that the reply already has; 0 is off."""
    frequency_penalty: float | None = None
    """Subtract for each time the reply already has the token; 0 is off."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Token id -> number added to its raw logit."""
    seed: int | None = None
    """Makes the draw repeatable; None takes a fresh one (`Reply.seed` says which)."""
    stop: str | Sequence[str] = ()
    """Texts that end the reply; up to 16. The earliest in the text counts."""
    stop_token_ids: Sequence[int] = ()
    """Token ids that end the reply, besides the model's own."""
    include_stop: bool = False
    """Whether the text keeps the stop text, or the text of the stop token, that ended it."""
    ignore_eos: bool = False
    """Go on after the model's own end tokens."""
    max_tokens: int | None = None
    """The most tokens of one reply."""
    min_tokens: int | None = None
    """No stop token is chosen and no stop text is looked for before so many tokens."""
    logprobs: int | None = None
    """Report each token's log probability and this many alternatives (0 to 20), from the raw logits."""
    prompt_logprobs: int | None = None
    """The same for each token of the prompt but the first, which nothing comes before."""
    n: int = 1
    """How many replies to the same prompt."""
    skip_special_tokens: bool = True
    """Leave special tokens out of the text, as transformers' decode does."""
    structure: Structure | None = None
    """The form that the reply must have, from the end of its thought on."""
    thinking_budget: int | None = None
    """After so many tokens of a thought it is closed, so that the answer begins."""

    def __post_init__(self) -> None:
        _number(self, "temperature", 0.0, 1000.0)
        if self.temperature is not None and 0 < self.temperature < 1e-4:
            raise RequestError("temperature must be 0 (greedy) or at least 0.0001")
        _integer(self, "top_k", 0, _MOST)
        _number(self, "top_p", 0.0, 1.0)
        _number(self, "min_p", 0.0, 1.0)
        _number(self, "repetition_penalty", 0.01, 100.0)
        _number(self, "presence_penalty", -100.0, 100.0)
        _number(self, "frequency_penalty", -100.0, 100.0)
        _integer(self, "seed", -(2**63), 2**64 - 1)
        _integer(self, "max_tokens", 1, _MOST)
        _integer(self, "min_tokens", 0, _MOST)
        _integer(self, "logprobs", 0, MAX_LOGPROBS)
        _integer(self, "prompt_logprobs", 0, MAX_LOGPROBS)
        _integer(self, "n", 1, 1024)
        _integer(self, "thinking_budget", 0, _MOST)
        for name in ("include_stop", "ignore_eos", "skip_special_tokens"):
            if not isinstance(getattr(self, name), bool):
                raise RequestError(f"{name} must be True or False, not {shown(getattr(self, name))}")
        if self.min_tokens and self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise RequestError(f"min_tokens {self.min_tokens} is above max_tokens {self.max_tokens}")
        self._check_stops()
        self._check_bias()
        self._check_structure()

    def _check_structure(self) -> None:
        if self.structure is None:
            return
        if not isinstance(self.structure, Structure):
            raise RequestError(
                f"structure must be a Structure, such as Structure.json_object(), not {shown(self.structure)}"
            )
        idle = "ignore_eos" if self.ignore_eos else "min_tokens" if self.min_tokens else None
        if idle is not None:
            raise RequestError(
                f"{idle} and structure contradict each other: the form says where a reply ends"
            )

    def _check_stops(self) -> None:
        stops = (self.stop,) if isinstance(self.stop, str) else self.stop
        if not isinstance(stops, Sequence) or not all(isinstance(s, str) and s for s in stops):
            raise RequestError(f"stop must be a non-empty text or several, not {shown(self.stop)}")
        if any("\ud800" <= character <= "\udfff" for stop in stops for character in stop):
            raise RequestError(
                "a stop text holds half a character (a lone surrogate), which no reply contains"
            )
        if len(stops) > MAX_STOPS:
            raise RequestError(f"stop has {len(stops)} texts; at most {MAX_STOPS} are allowed")
        ids = self.stop_token_ids
        if (
            isinstance(ids, str | bytes | bytearray)
            or not isinstance(ids, Sequence)
            or not all(_is_int(i) and 0 <= i <= _MOST for i in ids)
        ):
            raise RequestError(f"stop_token_ids must be a list of token ids, not {shown(ids)}")
        object.__setattr__(self, "stop", tuple(stops))
        object.__setattr__(self, "stop_token_ids", tuple(ids))

    def _check_bias(self) -> None:
        if not isinstance(self.logit_bias, Mapping):
            raise RequestError(f"logit_bias must map token ids to numbers, not {shown(self.logit_bias)}")
        for token, bias in self.logit_bias.items():
            if not _is_int(token) or not 0 <= token <= _MOST:
                raise RequestError(f"logit_bias has the key {shown(token)}, which is no token id")
            if not _is_number(bias) or abs(bias) > 1000:
                raise RequestError(
                    f"logit_bias of token {shown(token)} is {shown(bias)}; it must be from -1000 to 1000"
                )
        object.__setattr__(self, "logit_bias", dict(self.logit_bias))

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop texts as a tuple."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @classmethod
    def greedy(cls, *, max_tokens: int | None = None) -> SamplingParams:
        """Always the largest raw logit: temperature 0 and every penalty off."""
        return cls(
            temperature=0.0,
            top_k=0,
            top_p=1.0,
            min_p=0.0,
            repetition_penalty=1.0,
            presence_penalty=0.0,
            frequency_penalty=0.0,
            max_tokens=max_tokens,
        )

    def with_defaults(self, defaults: SamplingParams) -> SamplingParams:
        """Return a copy in which the inherited fields that are None are taken from `defaults`.

        RequestError when a cut was asked for and the inherited temperature is 0, where it would do nothing.
        """
        if self.temperature is None and not defaults.temperature:
            idle = [name for name, off in _CUTS.items() if getattr(self, name) not in (None, off)]
            if idle:
                raise RequestError(
                    f"{idle[0]} is set, but the default here is greedy, where it does nothing: "
                    "set temperature too"
                )
        missing = {name: getattr(defaults, name) for name in _INHERITED if getattr(self, name) is None}
        # What the request itself says goes first where a default contradicts it.
        if self.structure is not None:
            missing.pop("min_tokens", None)
        if "max_tokens" in missing and (missing["max_tokens"] or math.inf) < (self.min_tokens or 0):
            missing["max_tokens"] = None
        if "min_tokens" in missing and (missing["min_tokens"] or 0) > (self.max_tokens or math.inf):
            missing["min_tokens"] = self.max_tokens
        return dataclasses.replace(self, **missing)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def shown(value: object) -> str:
    """`value` in a message: on one line of bounded length, whatever it is."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python refuses to write integers of thousands of digits
        return f"a {type(value).__name__} too long to show"
    return text if len(text) <= 80 else text[:77] + "..."


def _number(params: SamplingParams, name: str, low: float, high: float) -> None:
    value = getattr(params, name)
    if value is not None and not (_is_number(value) and low <= value <= high):
        raise RequestError(f"{name} must be a number from {low:g} to {high:g}, not {shown(value)}")


def _integer(params: SamplingParams, name: str, low: int, high: int | None = None) -> None:
    value = getattr(params, name)
    if value is None:
        if name == "n":
            raise RequestError(f"{name} must be a whole number, not None")
        return
    if not _is_int(value) or value < low or (high is not None and value > high):
        limits = f"at least {low}" if high in (None, _MOST) else f"from {low} to {high}"
        raise RequestError(f"{name} must be a whole number {limits}, not {shown(value)}")
