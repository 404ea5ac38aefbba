"""Which sampling applies when a request says nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from assets import SHARED, needs_shared
from qanat.checkpoint.config import ModelConfig
from qanat.engine import defaults
from qanat.engine.defaults import model_card_params, params_like_transformers
from qanat.engine.sampling_params import SamplingParams
from qanat.errors import CheckpointError, UnsupportedError
from tools.tiny_models import text_config


@dataclass
class Model:
    generation_config: dict[str, Any] = field(default_factory=dict)
    config: ModelConfig = field(default_factory=lambda: ModelConfig.from_dict(text_config()))


def sized(hidden: int, layers: int) -> Model:
    raw = text_config({"hidden_size": hidden, "num_hidden_layers": layers})
    return Model(
        {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95}, ModelConfig.from_dict(raw)
    )


def test_without_a_generation_config_it_is_greedy_with_no_limit() -> None:
    params = params_like_transformers(Model())
    assert params == SamplingParams.greedy()


def test_the_generation_config_is_followed() -> None:
    stored = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "max_new_tokens": 9}
    params = params_like_transformers(Model({**stored, "repetition_penalty": 1.1, "eos_token_id": [1]}))
    assert (params.temperature, params.top_k, params.top_p, params.min_p) == (0.6, 20, 0.95, 0.0)
    assert (params.repetition_penalty, params.max_tokens) == (1.1, 9)


def test_sampling_values_mean_nothing_unless_it_says_do_sample() -> None:
    params = params_like_transformers(Model({"temperature": 0.6, "top_k": 20}))
    assert (params.temperature, params.top_k) == (0.0, 0)


def test_a_sampling_config_without_top_k_has_transformers_default() -> None:
    assert params_like_transformers(Model({"do_sample": True})).top_k == 50


def test_ways_of_generating_that_we_lack_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="num_beams to 4"):
        params_like_transformers(Model({"num_beams": 4}))
    assert params_like_transformers(Model({"num_beams": 1, "no_repeat_ngram_size": None}))


def test_a_senseless_value_names_the_file() -> None:
    with pytest.raises(CheckpointError, match=r"generation_config.json: top_p"):
        params_like_transformers(Model({"do_sample": True, "top_p": 3}))
    for value in ("false", 1, []):
        with pytest.raises(CheckpointError, match=r"generation_config.json: do_sample"):
            params_like_transformers(Model({"do_sample": value}))


@pytest.mark.parametrize(
    ("hidden", "layers", "thinking", "expected"),
    [
        (1024, 24, False, (1.0, 1.0, 20, 2.0)),  # 0.8B
        (2048, 24, True, (1.0, 0.95, 20, 1.5)),  # 2B
        (2560, 32, True, (1.0, 0.95, 20, 1.5)),  # 4B
        (2560, 32, False, (0.7, 0.8, 20, 1.5)),
        (2048, 40, False, (0.7, 0.8, 20, 1.5)),  # 35B-A3B is narrow, but deep
    ],
)
def test_the_model_card_depends_on_size_and_thinking(
    hidden: int, layers: int, thinking: bool, expected: tuple[float, ...]
) -> None:
    p = model_card_params(sized(hidden, layers), thinking)
    assert (p.temperature, p.top_p, p.top_k, p.presence_penalty) == expected
    assert (p.min_p, p.repetition_penalty, p.max_tokens) == (0.0, 1.0, 32768)


def test_a_model_without_a_card_has_its_generation_config() -> None:
    model = Model({"do_sample": True, "temperature": 0.5, "top_k": 7})
    assert model_card_params(model, True) == params_like_transformers(model)


@needs_shared
@pytest.mark.parametrize(
    ("size", "small"),
    [("0.8B", True), ("2B", True), ("4B", False), ("9B", False), ("27B", False), ("35B-A3B", False)],
)
def test_published_sizes_are_told_apart(size: str, small: bool) -> None:
    config = ModelConfig.from_file(SHARED / "qwen3.5" / size / "config.json")
    assert (model_card_params(Model({}, config), False).presence_penalty == 2.0) == small


def test_every_difference_from_transformers_says_why() -> None:
    names = [name for name, *_ in defaults.DIFFERENCES_FROM_TRANSFORMERS]
    assert len(set(names)) == len(names)
    assert all(all(part.strip() for part in entry) for entry in defaults.DIFFERENCES_FROM_TRANSFORMERS)
