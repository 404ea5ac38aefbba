"""Whole models on the CPU backend: near the float64 oracle, and the same bits however they are run."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from qanat.backends.cpu.ops import CpuOps
from qanat.checkpoint import load_checkpoint
from qanat.model import TextModel
from tests.model import oracle, runs, tiny
from tests.model.test_reference_logits import bar

MODES = ("bf16", "int8")
THREADS = (1, 2, 3, 5)
TOKENS = 140


@cache
def rounded(name: str) -> dict[str, NDArray[Any]]:
    """The tiny model's tensors with matrices rounded to bfloat16, as a published checkpoint's are."""
    return {
        key: value.astype(ml_dtypes.bfloat16).astype(np.float32) if value.ndim == 2 else value
        for key, value in tiny.random_tensors(name).items()
    }


@cache
def model(name: str, mode: str, threads: int = 1) -> TextModel[Any]:
    ops = CpuOps(mode, threads=threads)
    if name == "pocket":
        checkpoint = load_checkpoint(name)
        return TextModel(checkpoint.config.text, checkpoint.tensors, ops)
    return runs.build(tiny.config_dict(name), rounded(name), ops=ops)


def tokens_of(name: str, count: int = TOKENS) -> NDArray[np.int32]:
    if name == "pocket":
        return np.random.default_rng(3).integers(0, 900, count).astype(np.int32)
    return tiny.token_stream(name, count)


@pytest.mark.parametrize("name", tiny.VARIANTS)
def test_bfloat16_logits_are_as_near_the_truth_as_transformers_float32(name: str) -> None:
    tokens = tokens_of(name)
    truth = oracle.logits(tiny.config_dict(name), rounded(name), tokens)
    whole = runs.logits_of(model(name, "bf16"), [tokens])
    assert np.abs(whole - truth).max() <= bar(name, "prefill 200")
    pieces = [tokens[:65], *(tokens[i : i + 1] for i in range(65, TOKENS))]
    assert np.abs(runs.logits_of(model(name, "bf16"), pieces) - truth).max() <= bar(name, "prefill 200")


@pytest.mark.parametrize("name", tiny.VARIANTS)
def test_int8_logits_stay_near_the_truth(name: str) -> None:
    """A bound on blunders only: random weights amplify rounding more than trained ones do."""
    tokens = tokens_of(name)
    truth = oracle.logits(tiny.config_dict(name), rounded(name), tokens)
    got = runs.logits_of(model(name, "int8"), [tokens])
    assert np.sqrt(np.mean((got - truth) ** 2)) < 0.25 * np.std(truth)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["pocket", "value_heads_3x", "odd_sizes"])
def test_chunks_and_threads_change_no_bit(name: str, mode: str) -> None:
    tokens = tokens_of(name)
    whole = runs.logits_of(model(name, mode), [tokens])
    for threads in THREADS:
        for size in (7, 64, TOKENS):
            pieces = [tokens[i : i + size] for i in range(0, TOKENS, size)]
            assert np.array_equal(runs.logits_of(model(name, mode, threads), pieces), whole), (threads, size)
    one_by_one = [tokens[i : i + 1] for i in range(TOKENS)]
    assert np.array_equal(runs.logits_of(model(name, mode, 2), one_by_one), whole)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["pocket", "value_heads_2x"])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_sequence_in_a_crowd_gives_the_same_bits_as_alone(name: str, mode: str, data: Any) -> None:
    """Up to nine sequences, each in its own pieces, prefill and decode mixed in any way."""
    tokens, count = tokens_of(name, 80), data.draw(st.integers(2, 9))
    whole = runs.logits_of(model(name, mode), [tokens])
    crowd = runs.Sequences(model(name, mode, data.draw(st.sampled_from(THREADS))), slots=count, tokens=80)
    found: list[list[NDArray[np.float32]]] = [[] for _ in range(count)]
    for _ in range(6):
        pieces = {}
        for slot in data.draw(st.permutations(range(count)))[: data.draw(st.integers(1, count))]:
            at = crowd.length[slot]
            size = min(data.draw(st.sampled_from((1, 1, 2, 7, 30))), len(tokens) - at)
            if size:
                pieces[slot] = tokens[at : at + size]
        if pieces:
            for slot, logits in crowd.feed(pieces).items():
                found[slot].append(logits)
    for rows in found:
        if rows:
            got = np.concatenate(rows)
            assert np.array_equal(got, whole[: len(got)])


@pytest.mark.parametrize("count", [1000, pytest.param(4000, marks=pytest.mark.proof)])
def test_a_long_decode_stays_with_the_oracle(count: int) -> None:
    """Rounding does not build up in the recurrent state: the last rows are as near as the first."""
    name = "value_heads_2x"
    config = tiny.config_dict(name)
    tokens = np.random.default_rng(4).integers(0, config["vocab_size"], count, dtype=np.int32)
    truth = oracle.logits(config, rounded(name), tokens)
    run = runs.Sequences(model(name, "bf16"), slots=1, tokens=count)
    got = np.concatenate([run.feed({0: tokens[i : i + 1]})[0] for i in range(count)])
    errors = np.abs(got - truth).max(axis=1)
    assert errors[-100:].max() <= max(3 * errors[:100].max(), 1e-5)
