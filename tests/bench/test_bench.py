"""`qanat bench`: a table and a JSON object of figures that fit together."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from qanat.backends import WEIGHTS, storage
from qanat.bench.steps import Sequences, bytes_read, bytes_read_here, open_model, operations
from qanat.checkpoint import load_checkpoint
from qanat.errors import RequestError
from tests.cli.commands import assert_refused, invoke

QUICK = (
    "--threads",
    "1",
    "--prompt",
    "70",
    "--context",
    "100",
    "--sequences",
    "3",
    "--steps",
    "2",
    "--rounds",
    "1",
)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    result = invoke("bench", *QUICK, "--json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_figures_agree_with_each_other(report: dict[str, Any]) -> None:
    ceilings, config = report["ceilings"], load_checkpoint("pocket").config.text
    assert (report["model"], report["weights"], report["threads"]) == ("pocket", "bf16", 1)
    for name, count, context in (("decode", 1, 0), ("decode_long", 1, 100), ("decode_batch", 3, 0)):
        row = report[name]
        assert (row["sequences"], row["context"]) == (count, context)
        assert row["tokens_per_second"] == pytest.approx(count / row["seconds_per_step"])
        read = bytes_read_here(config, "bf16", context, count) / 1e9
        assert row["gb_per_second"] == pytest.approx(read / row["seconds_per_step"])
        assert row["share_of_ceiling"] == pytest.approx(row["gb_per_second"] / ceilings["read_gb_s"]["1"])
    prefill = report["prefill"]
    assert prefill["tokens_per_second"] == pytest.approx(70 / prefill["seconds"])
    assert prefill["share_of_ceiling"] == pytest.approx(
        prefill["gop_per_second"] / ceilings["f32_gop_s"]["1"]
    )


def test_a_start_tells_its_own_memory(report: dict[str, Any]) -> None:
    start = report["start"]
    assert 0 < start["load_seconds"] < start["process_seconds"]
    assert report["over_bytes"] == start["peak_bytes"] - start["weights_bytes"] - start["state_bytes"]
    assert 30e6 < report["over_bytes"] < 600e6
    assert 0 < report["python_seconds_per_step"] < 1


def test_the_table_names_every_figure() -> None:
    result = invoke("bench", *QUICK)
    assert result.exit_code == 0, result.stderr
    for words in (
        "prompt of 70",
        "after 100",
        "3 sequences",
        "ceilings",
        "first token",
        "all else",
        "Python",
    ):
        assert words in result.stdout
    assert "measuring" in result.stderr


def test_what_cannot_be_measured_is_refused() -> None:
    assert_refused(invoke("bench", "--weights", "f32"), "--weights", "f32")
    assert_refused(invoke("bench", "--prompt", "4096"), "prompt and its reply", "4096")
    assert_refused(invoke("bench", "--rounds", "1000"), "rounds", "4096")
    assert_refused(invoke("bench", "-m", "no/such-model", "--offline"), "no/such-model")


@pytest.mark.parametrize("mode", [mode for mode in WEIGHTS if mode != "auto"])
def test_weights_that_the_backend_lacks_are_not_offered(mode: str) -> None:
    try:
        storage("cpu", mode)
    except RequestError:
        assert mode not in invoke("bench", "--help").stdout
    else:
        assert mode in invoke("bench", "--help").stdout


def test_a_filled_past_costs_memory_and_does_not_disturb() -> None:
    model = open_model(load_checkpoint("pocket"), "bf16", 1)
    sequences = Sequences(model, 2, 130, 4)
    for layer in sequences._state.layers:
        if hasattr(layer, "keys"):
            assert np.count_nonzero(layer.keys) > 0.9 * layer.keys.size
    logits = sequences.step(3)
    assert logits.shape == (2, model.config.vocab_size)
    assert np.isfinite(logits).all()


def test_bytes_and_operations_follow_the_sizes() -> None:
    c = load_checkpoint("pocket").config.text
    weights = c.bytes_read_per_token / 2  # numbers
    one, four = (bytes_read(c, 1.0, 2, context=0, count=n) for n in (1, 4))
    assert one == weights + c.recurrent_state_bytes
    assert four - one == 3 * c.recurrent_state_bytes
    assert bytes_read(c, 1.0, 2, context=10, count=1) - one == 10 * c.kv_bytes_per_token
    assert bytes_read_here(c, "int8", 0, 1) == bytes_read(c, storage("cpu", "int8").weight, 2, 0, 1)
    assert operations(c, 1) == 2 * weights
    assert operations(c, 11) - operations(c, 10) == 2 * (weights - c.vocab_size * c.hidden_size)
