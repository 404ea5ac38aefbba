"""Parameter counts, state and traffic are those of the published checkpoints, to the last byte."""

from __future__ import annotations

from math import prod

import pytest

from qanat.checkpoint import ModelConfig, expected_tensors
from qanat.checkpoint.sizes import mtp_bytes_read_per_step, mtp_kv_bytes_per_token
from tools.make_checkpoint import plan_checkpoint
from tools.published_sizes import SIZES, published_config

# size: text, vision, mtp parameters; bytes of all tensors; bytes read per token (GB), of which the head;
#       bytes of a draft step (MB); KV bytes per token; recurrent and conv state (MB)
TABLE = {
    "0.8B": (752_393_024, 100_592_896, 20_452_864, 1_746_882_752, 1.505, 0.509, 41, 12_288, 18.87, 0.66),
    "2B": (1_881_825_088, 331_416_576, 60_828_160, 4_548_144_832, 3.764, 1.017, 122, 12_288, 18.87, 0.66),
    "4B": (4_205_751_296, 333_514_240, 120_599_552, 9_319_737_856, 8.412, 1.271, 241, 32_768, 50.33, 1.18),
    "9B": (8_953_803_264, 456_010_480, 243_290_624, 19_306_216_416, 15.873, 2.034, 487, 32_768, 50.33, 1.18),
    "27B": (
        26_895_998_464,
        460_730_096,
        424_699_392,
        55_562_872_800,
        51.249,
        2.543,
        849,
        65_536,
        150.99,
        2.95,
    ),
    "35B-A3B": (
        34_660_610_688,
        446_571_248,
        844_640_768,
        71_903_655_008,
        5.893,
        1.017,
        129,
        20_480,
        62.91,
        1.47,
    ),
    "122B-A10B": (
        122_111_526_912,
        451_290_864,
        2_523_679_232,
        250_173_007_840,
        18.017,
        1.526,
        367,
        24_576,
        150.99,
        2.65,
    ),
}

COUNTS = {
    "0.8B": 488,
    "2B": 632,
    "4B": 738,
    "9B": 775,
    "27B": 1199,
    "35B-A3B": 1045,
    "122B-A10B": 1183,
    "397B-A17B": 1390,
}


@pytest.mark.parametrize("size", TABLE)
def test_counts_and_bytes_equal_the_published_ones(size: str) -> None:
    text, vision, mtp, total, read, head, draft, kv, recurrent, conv = TABLE[size]
    config = ModelConfig.from_dict(published_config(size))
    assert config.vision is not None
    assert config.text.num_parameters == text
    assert config.vision.num_parameters == vision
    assert config.text.num_mtp_parameters == mtp
    assert config.num_parameters == text + vision + mtp
    assert plan_checkpoint(size).total_size == total
    assert round(config.text.bytes_read_per_token / 1e9, 3) == read
    assert round(2 * config.text.vocab_size * config.text.hidden_size / 1e9, 3) == head
    assert round(mtp_bytes_read_per_step(config.text) / 1e6) == draft
    assert config.text.kv_bytes_per_token == kv
    assert mtp_kv_bytes_per_token(config.text) * config.text.num_full_layers == kv
    assert round(config.text.recurrent_state_bytes / 1e6, 2) == recurrent
    assert round(config.text.conv_state_bytes / 1e6, 2) == conv


@pytest.mark.parametrize("size", COUNTS)
def test_the_formulas_and_the_tensor_table_count_the_same(size: str) -> None:
    config = ModelConfig.from_dict(published_config(size))
    table = expected_tensors(config)
    assert len(table) == COUNTS[size]
    assert sum(prod(want.shape) for want in table.values()) == config.num_parameters


def test_the_draft_layer_of_a_dense_model_has_15_tensors_and_the_towers_the_known_counts() -> None:
    parts = {"0.8B": (320, 153, 15), "2B": (320, 297, 15), "4B": (426, 297, 15), "9B": (427, 333, 15)}
    for size, (text, vision, mtp) in parts.items():
        names = expected_tensors(ModelConfig.from_dict(published_config(size)))
        assert sum(name.startswith("mtp.") for name in names) == mtp
        assert sum(name.startswith("model.visual.") for name in names) == vision
        assert len(names) - mtp - vision == text


def test_an_all_16_bit_35b_has_the_other_published_total() -> None:
    config = ModelConfig.from_dict(published_config("35B-A3B"))
    assert 2 * config.num_parameters == 71_903_645_408


def test_every_size_can_be_planned_with_all_files_accounted_for() -> None:
    for size in SIZES:
        plan = plan_checkpoint(size)
        assert sum(len(plans) for plans in plan.shards.values()) == len(
            expected_tensors(ModelConfig.from_dict(plan.config))
        )
        assert plan.file_bytes > plan.total_size
