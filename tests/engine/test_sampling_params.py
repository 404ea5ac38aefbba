"""Requests are checked when they are built."""

from __future__ import annotations

from typing import Any

import pytest

from qanat.engine import SamplingParams
from qanat.errors import RequestError

NUMBERS = (
    "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
    "seed", "max_tokens", "min_tokens", "logprobs",
    "prompt_logprobs", "n",
)  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("temperature", 1e-9),
        ("temperature", "hot"),
        ("temperature", True),
        ("top_k", -1),
        ("top_k", 2.5),
        ("top_p", 1.01),
        ("top_p", -0.1),
        ("min_p", 2),
        ("repetition_penalty", 0),
        ("presence_penalty", float("nan")),
        ("frequency_penalty", 1000),
        ("logit_bias", {"1": 2.0}),
        ("logit_bias", {1: float("inf")}),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", [1]),
        ("seed", 2**64),
        ("seed", 1.0),
        ("stop", ""),
        ("stop", ["a", ""]),
        ("stop", ["a"] * 17),
        ("stop", 3),
        ("stop_token_ids", "12"),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", 5),
        ("max_tokens", 0),
        ("max_tokens", True),
        ("min_tokens", -1),
        ("logprobs", 21),
        ("logprobs", -1),
        ("prompt_logprobs", 21),
        ("prompt_logprobs", -1),
        ("prompt_logprobs", True),
        ("n", 0),
        ("n", None),
        ("ignore_eos", None),
        ("stop", "\ud800"),
        ("stop_token_ids", b"x"),
        ("include_stop", 1),
        ("skip_special_tokens", "yes"),
    ],
)
def test_a_bad_value_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(RequestError, match=field.split("_")[0]) as error:
        SamplingParams(**{field: value})
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_endless_numbers_are_refused_like_others() -> None:
    endless = 10**5000  # beyond every float, and Python refuses to print it
    values = [(name, value) for name in NUMBERS for value in (endless, -endless, float("nan"))]
    values += [("stop_token_ids", [endless]), ("logit_bias", {endless: 1}), ("logit_bias", {1: endless})]
    for name, value in values:
        with pytest.raises(RequestError, match=name) as error:
            SamplingParams(**{name: value})
        assert len(str(error.value)) < 300


def test_contradicting_limits_are_refused() -> None:
    with pytest.raises(RequestError, match="min_tokens 5 is above max_tokens 4"):
        SamplingParams(min_tokens=5, max_tokens=4)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError):
        SamplingParams(best_of=3)  # type: ignore[call-arg]


def test_open_fields_are_taken_from_the_defaults_and_no_others() -> None:
    defaults = SamplingParams(temperature=0.6, top_k=20, top_p=0.95, max_tokens=100, stop="x", seed=1)
    merged = SamplingParams(temperature=0.0, stop="y").with_defaults(defaults)
    assert (merged.temperature, merged.top_k, merged.top_p, merged.max_tokens) == (0.0, 20, 0.95, 100)
    assert (merged.stops, merged.seed) == (("y",), None)


def test_what_a_request_says_goes_before_a_default_that_contradicts_it() -> None:
    assert SamplingParams(min_tokens=50).with_defaults(SamplingParams(max_tokens=10)).max_tokens is None
    assert SamplingParams(max_tokens=3).with_defaults(SamplingParams(min_tokens=10)).min_tokens == 3


def test_greedy_leaves_nothing_to_defaults_but_the_length() -> None:
    defaults = SamplingParams(temperature=1, top_k=5, repetition_penalty=1.5, presence_penalty=2.0)
    merged = SamplingParams.greedy(max_tokens=7).with_defaults(defaults)
    assert (merged.temperature, merged.top_k, merged.repetition_penalty) == (0, 0, 1.0)
    assert (merged.presence_penalty, merged.max_tokens) == (0, 7)


def test_a_single_stop_text_counts_as_one() -> None:
    assert SamplingParams(stop="end").stops == ("end",)


@pytest.mark.parametrize("cut", [{"top_k": 5}, {"top_p": 0.9}, {"min_p": 0.1}])
def test_a_cut_that_would_do_nothing_is_refused(cut: dict[str, Any]) -> None:
    greedy, sampled = SamplingParams.greedy(), SamplingParams(temperature=0.7)
    with pytest.raises(RequestError, match="set temperature too"):
        SamplingParams(**cut).with_defaults(greedy)
    assert SamplingParams(**cut).with_defaults(sampled).temperature == 0.7
    assert SamplingParams(temperature=0.0, **cut).with_defaults(sampled).temperature == 0.0
    assert SamplingParams(top_k=0, top_p=1.0, min_p=0.0).with_defaults(greedy) == greedy
