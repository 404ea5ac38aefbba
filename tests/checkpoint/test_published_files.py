"""Against the published files, when present: our own writing of them says the same."""

from __future__ import annotations

import json

import pytest

from assets import SHARED, needs_shared
from qanat.checkpoint import ModelConfig, expected_tensors
from tools.published_sizes import (
    SIZES,
    generation_config,
    preprocessor_configs,
    published_config,
)

PUBLISHED = [size for size in SIZES if size != "tiny"]
pytestmark = needs_shared


@pytest.mark.parametrize("size", PUBLISHED)
def test_our_config_equals_the_published_one(size: str) -> None:
    theirs = json.loads((SHARED / "qwen3.5" / size / "config.json").read_text())
    del theirs["transformers_version"]
    assert published_config(size) == theirs


@pytest.mark.parametrize("size", PUBLISHED)
def test_the_tensor_table_has_exactly_the_published_names(size: str) -> None:
    folder = SHARED / "qwen3.5" / size
    names = set((folder / "tensor_names.txt").read_text().split())
    assert set(expected_tensors(ModelConfig.from_file(folder / "config.json"))) == names


@pytest.mark.parametrize("size", PUBLISHED)
def test_the_small_files_equal_the_published_ones(size: str) -> None:
    folder = SHARED / "qwen3.5" / size
    for name, ours in preprocessor_configs().items():
        assert json.loads((folder / name).read_text()) == ours
    ours = generation_config(size)
    file = folder / "generation_config.json"
    if not file.is_file():
        assert ours is None
        return
    theirs = json.loads(file.read_text())
    theirs.pop("transformers_version", None)
    assert ours == theirs


def test_official_models_have_the_official_rotary_settings() -> None:
    for size in PUBLISHED:
        text = ModelConfig.from_file(SHARED / "qwen3.5" / size / "config.json").text
        assert text.rope_theta == 1e7
        assert text.rotary_dim == 64
        assert text.mrope_section == (11, 11, 10)
