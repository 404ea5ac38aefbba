"""Memory is estimated and checked before anything is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from assets import SHARED, needs_shared
from qanat.checkpoint.config import ModelConfig, TextConfig
from qanat.engine import free_memory, memory
from qanat.engine.llm import LLM
from qanat.engine.memory import PAGE, PROMPT_ROWS, check, estimate, plan
from qanat.errors import OutOfMemoryError, RequestError
from tools.tiny_models import text_config

GIB = 2**30


@pytest.fixture
def config() -> TextConfig:
    return ModelConfig.from_dict(text_config({"max_position_embeddings": 100_000})).text


def test_the_estimate_counts_what_is_allocated(config: TextConfig) -> None:
    one, two = estimate(config, "f32", 1000, 1), estimate(config, "f32", 1000, 2)
    assert one.weights == 4 * config.num_parameters == 2 * estimate(config, "bf16", 0, 1).weights
    # 2 full layers, keys and values of 2 heads of 32 float32 numbers
    assert one.keys_values == 1000 * 2 * 2 * 2 * 32 * 4
    # 6 linear layers: 8 matrices of 16 x 16, and 3 rows of (2 * 4 + 8) * 16 channels
    assert one.state == 6 * (8 * 16 * 16 + 3 * 16 * 16) * 4
    assert (two.state, two.keys_values) == (2 * one.state, 2 * one.keys_values)
    assert one.total == one.weights + one.state + one.keys_values + one.working


def test_the_estimate_counts_the_logits_that_a_prompt_may_ask_for(config: TextConfig) -> None:
    def of_logits(step_tokens: int) -> int:
        vocabularies = [
            estimate(replace(config, vocab_size=size), "bf16", 0, 1, step_tokens=step_tokens).working
            for size in (10_000, 20_000)
        ]
        return (vocabularies[1] - vocabularies[0]) // (10_000 * 4)

    assert of_logits(64) - of_logits(1) == 63
    assert of_logits(1000) == of_logits(64) == PROMPT_ROWS + of_logits(1) - 1


def test_too_little_memory_says_what_is_needed_and_what_helps(config: TextConfig) -> None:
    with pytest.raises(OutOfMemoryError) as error:
        check(config, "f32", 50_000, available=10_000_000)
    message = str(error.value)
    for part in ("needs about", "10.0 MB are free", "max_model_len", "weights='bf16'", "a smaller model"):
        assert part in message
    assert "\n" not in message
    with pytest.raises(OutOfMemoryError, match="max_batch") as crowd:  # what is too much is what it tells
        plan(config, sequences=10**6, available=GIB)
    assert float(str(crowd.value).split("needs about ")[1].split(" GB")[0]) > 1
    check(config, "f32", 50_000, available=GIB)


def test_a_plan_takes_the_default_context_when_it_fits(config: TextConfig) -> None:
    planned = plan(config, sequences=4, available=64 * GIB)
    assert (planned.weights, planned.context) == ("f32", 32768)
    assert planned.pages == 4 * 32768 // PAGE
    assert planned.estimate.total < 64 * GIB


def test_a_plan_shrinks_the_pool_then_the_context(config: TextConfig) -> None:
    need = estimate(config, "f32", 0, 4).total
    token = estimate(config, "f32", 1, 1).keys_values
    fewer = plan(config, sequences=4, available=int((need + token * 60_000) / 0.9))
    assert fewer.context == 32768
    assert 32768 // PAGE <= fewer.pages < 4 * 32768 // PAGE
    shorter = plan(config, sequences=4, available=int((need + token * 9000) / 0.9))
    assert 8000 < shorter.context <= 9000
    assert shorter.pages * PAGE >= shorter.context
    with pytest.raises(OutOfMemoryError):
        plan(config, sequences=4, available=int((need + token * 1000) / 0.9), weights="f32")


def test_auto_weights_become_bf16_only_where_nothing_is_lost(config: TextConfig) -> None:
    between = int((estimate(config, "bf16", 4096, 1).total + 100_000) / 0.9)
    assert plan(config, sequences=1, available=between, context=4096).weights == "bf16"
    with pytest.raises(OutOfMemoryError):
        plan(config, sequences=1, available=between, context=4096, stored_bf16=False)


def test_auto_leaves_large_bfloat16_weights_as_they_are(
    config: TextConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "LARGE_WEIGHTS", 4 * config.num_parameters - 1)
    assert plan(config, available=64 * GIB).weights == "bf16"
    assert plan(config, available=64 * GIB, stored_bf16=False).weights == "f32"
    monkeypatch.setattr(memory, "LARGE_WEIGHTS", 4 * config.num_parameters)
    assert plan(config, available=64 * GIB).weights == "f32"


def test_a_context_beyond_the_model_is_refused(config: TextConfig) -> None:
    with pytest.raises(RequestError, match="from 1 to 100000"):
        plan(config, context=100_001, available=64 * GIB)


def test_the_engine_checks_before_it_loads(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 200_000)
    monkeypatch.setattr("qanat.engine.core.TextModel", lambda *_: pytest.fail("weights were loaded"))
    with pytest.raises(OutOfMemoryError):
        LLM(tiny_folder)


def test_a_control_group_limits_what_is_free(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "self"
    inner = root / "outer" / "inner"
    inner.mkdir(parents=True)
    own.write_text("0::/outer/inner\n")
    (inner / "memory.max").write_text("max\n")
    (inner / "memory.current").write_text("5\n")
    (inner / "memory.stat").write_text("inactive_file 3\n")
    assert free_memory._cgroup2(root, own) is None
    (root / "outer" / "memory.max").write_text("1000\n")
    (root / "outer" / "memory.current").write_text("400\n")
    (root / "outer" / "memory.stat").write_text("anon 1\ninactive_file 150\n")
    assert free_memory._cgroup2(root, own) == 750
    assert free_memory._cgroup2(root, tmp_path / "missing") is None


def test_available_memory_is_a_plausible_number() -> None:
    assert 10**6 < memory.available_bytes() < 2**50


def test_a_limit_is_not_exceeded_and_is_named_where_it_is_too_low(config: TextConfig) -> None:
    need = estimate(config, "f32", 0, 4).total
    token = estimate(config, "f32", 1, 1).keys_values
    for limit in (need + 3000 * token, need + 40_000 * token, 2 * need + 100_000 * token):
        planned = plan(config, sequences=4, available=64 * GIB, limit=limit)
        assert limit - PAGE * token - planned.estimate.state < planned.estimate.total <= limit
        assert planned.pages * PAGE >= planned.context
    assert plan(config, available=GIB, limit=64 * GIB) == plan(config, available=GIB)
    with pytest.raises(OutOfMemoryError, match=r"the limit is 0.1 MB; try .*a higher limit"):
        plan(config, sequences=4, available=64 * GIB, limit=100_000)


def test_snapshots_have_their_share_and_are_counted(config: TextConfig) -> None:
    slot = estimate(config, "f32", 0, 1).state
    plain, more = (plan(config, sequences=2, available=64 * GIB, snapshots=n) for n in (0, 10))
    assert (plain.snapshots, more.snapshots) == (0, 10)
    assert more.estimate.state == plain.estimate.state + 10 * slot == 12 * slot
    assert (more.pages, more.context) == (plain.pages, plain.context)
    assert [plan(config, sequences=n, available=64 * GIB).snapshots for n in (1, 2, 5)] == [8, 8, 20]
    need = estimate(config, "f32", 0, 2).total
    token = estimate(config, "f32", 1, 1).keys_values
    tight = plan(config, sequences=2, available=64 * GIB, context=4096, limit=need + 4096 * token)
    assert (tight.snapshots, tight.pages) == (0, 4096 // PAGE)  # one context goes before any snapshot
    shared = plan(config, sequences=2, available=64 * GIB, context=4096, limit=need + 6144 * token)
    assert 0 < shared.snapshots <= 8
    assert 4096 // PAGE <= shared.pages < 6144 // PAGE
    with pytest.raises(OutOfMemoryError, match="fewer than 1000000 snapshots"):
        plan(config, sequences=2, available=GIB, snapshots=10**6)


@needs_shared
def test_published_models_need_what_their_size_says() -> None:
    config = ModelConfig.from_file(SHARED / "qwen3.5" / "2B" / "config.json")
    assert 7.0 < estimate(config, "f32", 0, 1).weights / 1e9 < 8.0
    assert estimate(config, "bf16", 0, 1).weights < 3.8e9


def test_the_cpu_backend_keeps_a_byte_and_a_scale_for_each_weight(config: TextConfig) -> None:
    int8 = estimate(config, "int8", 1000, 1, backend="cpu")
    bf16 = estimate(config, "bf16", 1000, 1, backend="cpu")
    assert int8.weights == round(config.num_parameters * (1 + 2 / 32))
    assert bf16.weights == 2 * config.num_parameters
    assert 2 * int8.keys_values == bf16.keys_values


def test_auto_on_the_cpu_is_int8_unless_the_model_is_small(
    config: TextConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plan(config, backend="cpu", available=64 * GIB).weights == "bf16"
    monkeypatch.setattr(memory, "WORTH_INT8", 2 * config.num_parameters - 1)
    assert plan(config, backend="cpu", available=64 * GIB).weights == "int8"


@pytest.mark.parametrize(("backend", "weights"), [("cpu", "f32"), ("reference", "int8")])
def test_a_mode_that_the_backend_lacks_is_refused_with_those_it_has(backend: str, weights: str) -> None:
    with pytest.raises(
        RequestError, match=f"the {backend} backend has no weights='{weights}': choose one of"
    ):
        LLM("pocket", backend=backend, weights=weights)


def test_threads_are_refused_where_they_would_have_no_effect() -> None:
    with pytest.raises(RequestError, match="leave threads out"):
        LLM("pocket", backend="reference", threads=2)
