"""The sampling kernels make the reference's choices: token, log probabilities, alternatives, errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from qanat.backends.common.weights import weigh
from qanat.backends.cpu.sampling import Sampler
from qanat.backends.reference.sampling import sample
from qanat.errors import NumericalError, RequestError
from qanat.model.sampling import Choice, SamplingRow

F32 = NDArray[np.float32]
SIZES = (1, 2, 15, 16, 17, 100, 1023, 1024, 1025, 3000, 20000)
SAMPLER = Sampler()  # one for all: no row may leave a trace in its scratch


def ours(logits: F32, rows: list[SamplingRow], live: int) -> list[Choice] | str:
    return outcome(SAMPLER.sample, logits, rows, live)


def outcome(function: object, *args: object) -> list[Choice] | str:
    try:
        return function(*args)  # type: ignore[operator,no-any-return]
    except (NumericalError, RequestError) as error:
        return f"{type(error).__name__}: {error}"


def values(rng: np.random.Generator, kind: str, size: int) -> F32:
    """Rows of many shapes: ties, plateaus, extremes."""
    x = rng.standard_normal(size)
    made = {
        "smooth": x * 3,
        "sharp": x * 30,
        "ties": np.rint(x * 2) / 2,
        "two values": np.where(x > 1, 1, -1),
        "flat": np.full(size, -2.5),
        "zeros of both signs": np.where(x > 0, 0.0, -0.0),
        "huge": x * 1e38,
        "tiny": x * 1e-40,
        "steep": np.sort(x * 8)[::-1],
    }[kind]
    return np.clip(made, -3e38, 3e38).astype(np.float32)


KINDS = ("smooth", "sharp", "ties", "two values", "flat", "zeros of both signs", "huge", "tiny", "steep")


def allowed(rng: np.random.Generator, size: int, share: float, words: int) -> NDArray[np.uint32]:
    """Random bits, in `words` more or fewer words than the row needs."""
    count = max(0, -(-size // 32) + words)
    bits = (rng.random(count * 32) < share).astype(np.uint8)
    return np.packbits(bits, bitorder="little").view(np.uint32)


@st.composite
def cases(draw: st.DrawFn) -> tuple[F32, list[SamplingRow], int]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.sampled_from(SIZES))
    live = draw(st.sampled_from((size, size, max(1, size - 3), max(1, size // 2))))
    rows, logits = [], []
    for _ in range(draw(st.integers(1, 3))):
        logits.append(values(rng, draw(st.sampled_from(KINDS)), size))
        ids = lambda most, n=size: rng.integers(0, n, rng.integers(0, most + 1)).astype(np.int32)  # noqa: E731
        banned = ids(3) if draw(st.integers(0, 5)) else ids(4 * size)
        extreme = draw(st.sampled_from((1e-44, 1e-60)))  # subnormal, and zero, in float32
        rows.append(
            SamplingRow(
                temperature=draw(st.sampled_from((0.0, 0.0, 1.0, 0.7, 1.9, 0.3, 1e-3, 1e30, extreme))),
                top_k=draw(st.sampled_from((0, 0, 1, 2, 20, 500, size, 2**30))),
                top_p=draw(st.sampled_from((1.0, 0.95, 0.5, 1e-9, 0.9999999, 0.0))),
                min_p=draw(st.sampled_from((0.0, 0.0, 0.05, 0.6, 1.0, 1e-13))),
                repetition_penalty=draw(st.sampled_from((1.0, 1.0, 1.3, 0.5, 1e3))),
                presence_penalty=draw(st.sampled_from((0.0, 0.0, 1.5, -2.0))),
                frequency_penalty=draw(st.sampled_from((0.0, 0.0, 0.3, -0.7))),
                logit_bias={int(i): float(b) for i, b in zip(ids(5), rng.normal(0, 4, 5), strict=False)},
                banned=banned if draw(st.booleans()) else ids(0),
                allowed=(
                    allowed(
                        rng,
                        size,
                        draw(st.sampled_from((0.0, 1e-3, 0.05, 0.9, 1.0))),
                        draw(st.sampled_from((-1, 0, 0, 2))),
                    )
                    if draw(st.integers(0, 3)) == 0
                    else None
                ),
                prompt=ids(50),
                output=ids(30),
                seed=draw(st.integers(-(2**70), 2**70)),
                choice_index=draw(st.integers(0, 3)),
                output_index=draw(st.integers(0, 10**6)),
                logprobs=draw(st.sampled_from((None, None, 0, 1, 5, 20))),
                forced=draw(st.sampled_from((None, None, None, 0, size // 3, size - 1))),
            )
        )
    return np.array(logits), rows, live


@given(cases())
@settings(max_examples=300, deadline=None)
def test_choices_are_those_of_the_reference(case: tuple[F32, list[SamplingRow], int]) -> None:
    logits, rows, live = case
    assert ours(logits.copy(), rows, live) == outcome(sample, logits, rows, live)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "cut", [{}, {"top_p": 0.9}, {"top_k": 40}, {"min_p": 0.02}, {"top_k": 7, "top_p": 0.6}]
)
def test_many_draws_are_those_of_the_reference(kind: str, cut: dict[str, float]) -> None:
    x = values(np.random.default_rng(3), kind, 700)
    rows = [SamplingRow(temperature=1.0, seed=5, output_index=i, **cut) for i in range(60)]  # type: ignore[arg-type]
    logits = np.tile(x, (60, 1))
    assert ours(logits, rows, 690) == outcome(sample, logits, rows, 690)


def test_a_published_vocabulary() -> None:
    rng = np.random.default_rng(8)
    for kind in ("smooth", "ties", "flat"):
        logits = values(rng, kind, 248320)[None]
        for row in (
            SamplingRow(logprobs=5),
            SamplingRow(temperature=0.6, top_k=20, top_p=0.95),
            SamplingRow(temperature=1.0, top_p=0.95, logprobs=20),
            SamplingRow(forced=3, logprobs=20),
            SamplingRow(forced=248319, logprobs=0),
            SamplingRow(temperature=2.0),
            SamplingRow(allowed=allowed(rng, 248077, 0.01, 0)),
            SamplingRow(temperature=1.0, allowed=allowed(rng, 248077, 0.9, 0), top_p=0.9),
            SamplingRow(
                temperature=1.0, top_k=5000, presence_penalty=1.0, output=np.arange(9, dtype=np.int32)
            ),
        ):
            rows = [replace(row, seed=4)]
            assert ours(logits, rows, 248077) == outcome(sample, logits, rows, 248077)


@pytest.mark.parametrize("function", [sample, SAMPLER.sample])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 17, 1025, 3000])
def test_a_forced_token_reports_what_the_raw_logits_say_of_it(function: Any, kind: str, size: int) -> None:
    raw, live = values(np.random.default_rng(size), kind, size), max(1, size - 2)
    wide = raw.astype(np.float64)
    total = wide.max() + np.log(np.exp(wide - wide.max()).sum())
    count = min(live, 5)
    free = function(raw[None], [SamplingRow(logprobs=count)], live)[0]
    obstacles = {
        "temperature": 1.3,
        "top_k": 1,
        "repetition_penalty": 1e3,
        "frequency_penalty": 2.0,
        "logit_bias": {0: 50.0},
        "banned": np.arange(live, dtype=np.int32),  # without the force an error: nothing is left
        "prompt": np.array([0], np.int32),
        "output": np.array([0], np.int32),
    }
    ids = sorted({0, free.token, size // 2, live - 1, size - 1})  # the last one is a dead row
    rows = [SamplingRow(forced=i, logprobs=count, **obstacles) for i in ids]
    choices = function(np.tile(raw, (len(ids), 1)), rows, live)
    assert [choice.token for choice in choices] == ids
    for choice in choices:
        assert choice.logprob == pytest.approx(wide[choice.token] - total, rel=1e-15, abs=1e-7)
        assert choice.top == free.top
    assert choices[ids.index(free.token)] == free
    plain = function(raw[None], [SamplingRow(forced=size - 1)], live)[0]
    assert plain == Choice(size - 1)


@pytest.mark.parametrize("function", [sample, SAMPLER.sample])
@pytest.mark.parametrize("token", [-1, 9, 2**40])
def test_a_forced_token_outside_the_vocabulary_is_refused(function: Any, token: int) -> None:
    with pytest.raises(ValueError, match=f"forced token {token} is none of 9 ids"):
        function(np.zeros((1, 9), np.float32), [SamplingRow(forced=token)], 7)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 15, 16, 1024, 1990, 1999])
@pytest.mark.parametrize(
    "row",
    [
        SamplingRow(),
        SamplingRow(temperature=1, banned=np.arange(2000, dtype=np.int32)),
        SamplingRow(forced=3),
    ],
)
def test_a_logit_that_is_no_finite_number_is_an_error(bad: float, at: int, row: SamplingRow) -> None:
    logits = np.zeros((2, 2000), np.float32)
    logits[1, at] = bad
    with pytest.raises(NumericalError, match="not a finite number"):
        SAMPLER.sample(logits, [SamplingRow(), row], 1995)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nothing_left_to_choose_is_an_error(temperature: float) -> None:
    row = SamplingRow(temperature=temperature, banned=np.arange(40, dtype=np.int32))
    with pytest.raises(RequestError, match="every token is banned"):
        SAMPLER.sample(np.zeros((1, 50), np.float32), [row], 40)


def test_rows_apart_read_only_and_transposed_give_the_same_and_are_not_written_to() -> None:
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((3, 77)).astype(np.float32)
    rows = [
        SamplingRow(temperature=0.9, seed=i, banned=np.array([3], np.int32), logprobs=2) for i in range(3)
    ]
    expected = SAMPLER.sample(logits.copy(), rows, 70)
    wide = np.full((3, 128), np.nan, np.float32)  # what lies behind a row is not looked at
    wide[:, :77] = logits
    frozen = logits.copy()
    frozen.flags.writeable = False
    before = wide.copy()
    for view in (
        wide[:, :77],
        frozen,
        np.asfortranarray(logits),
        wide[::-1, :77][::-1],
        wide[:, 76::-1][:, ::-1],
    ):
        assert SAMPLER.sample(view, rows, 70) == expected
    assert np.array_equal(wide, before, equal_nan=True)


def test_a_useless_call_is_refused() -> None:
    assert SAMPLER.sample(np.zeros((0, 9), np.float32), [], 9) == []
    with pytest.raises(ValueError, match="2 rows of logits, but 1 sampling rows"):
        SAMPLER.sample(np.zeros((2, 9), np.float32), [SamplingRow()], 9)
    with pytest.raises(ValueError, match="sums of weights hold at most"):
        SAMPLER.sample(np.zeros((1, 2**19), np.float32), [SamplingRow()], 9)


def test_the_kernel_s_mass_is_that_of_the_defined_weights() -> None:
    """By way of a row's normaliser, over the whole range of distances from the largest."""
    logits = -np.linspace(0, 45, 5000, dtype=np.float32)[None]
    choice = SAMPLER.sample(logits, [SamplingRow(logprobs=0)], 4000)[0]
    mass = int(weigh(logits[0], np.float32(0)).sum())
    assert choice.logprob == -np.log(mass / 2.0**44)
