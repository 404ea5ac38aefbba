"""config.json: both forms, the defaults, and a clear refusal of whatever is impossible or unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qanat.checkpoint import ModelConfig
from qanat.errors import ConfigError, UnsupportedError
from tools.published_sizes import SIZES, published_config
from tools.tiny_models import text_config


def nested(size: str = "0.8B", **text: Any) -> dict[str, Any]:
    config = published_config(size)
    config["text_config"].update(text)
    return config


@pytest.mark.parametrize("size", [size for size in SIZES if size != "tiny"])
def test_every_published_size_is_read(size: str) -> None:
    config = ModelConfig.from_dict(published_config(size))
    raw = published_config(size)
    text = config.text
    for name, value in raw["text_config"].items():
        if name in ("layer_types", "eos_token_id"):
            value = tuple(value) if isinstance(value, list) else (value,)
        if hasattr(text, name):
            assert getattr(text, name) == value, name
    assert (text.moe is not None) == size.endswith(("A3B", "A10B", "A17B"))
    assert text.rotary_dim == 64
    assert text.rope_theta == 1e7
    assert text.layer_types[3::4] == ("full_attention",) * text.num_full_layers
    assert text.kd == 2048
    assert config.vision is not None
    assert config.tie_word_embeddings == (size in ("0.8B", "2B", "4B"))


def test_the_flat_form_of_a_text_only_save_says_the_same_as_the_nested_one() -> None:
    config = published_config("2B")
    flat = {**config["text_config"], "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text"}
    parsed = ModelConfig.from_dict(flat)
    assert parsed.text == ModelConfig.from_dict(config).text
    assert parsed.vision is None


def test_absent_fields_take_the_published_classes_defaults() -> None:
    dense = ModelConfig.from_dict({"model_type": "qwen3_5"}).text
    assert (dense.hidden_size, dense.num_hidden_layers, dense.num_key_value_heads) == (4096, 32, 4)
    assert (dense.vocab_size, dense.intermediate_size, dense.head_dim) == (248320, 12288, 256)
    assert (dense.linear_num_key_heads, dense.linear_num_value_heads) == (16, 32)
    assert dense.max_position_embeddings == 32768
    assert dense.rope_theta == 1e4  # a silent trap: official files say 1e7, and are read so
    assert dense.partial_rotary_factor == 0.25
    assert dense.mrope_section == (11, 11, 10)
    assert dense.layer_types[:4] == ("linear_attention",) * 3 + ("full_attention",)
    assert dense.mtp_num_hidden_layers == 0
    assert not dense.tie_word_embeddings
    sparse = ModelConfig.from_dict({"architectures": ["Qwen3_5MoeForConditionalGeneration"]}).text
    assert (sparse.hidden_size, sparse.num_hidden_layers, sparse.num_key_value_heads) == (2048, 40, 2)
    assert sparse.intermediate_size is None
    assert sparse.moe is not None
    assert (sparse.moe.num_experts, sparse.moe.num_experts_per_tok) == (256, 8)
    assert (sparse.moe.moe_intermediate_size, sparse.moe.shared_expert_intermediate_size) == (512, 512)


@pytest.mark.parametrize(
    "where",
    [
        {"rope_parameters": {"rope_theta": 5e6, "partial_rotary_factor": 0.5, "mrope_section": [6, 5, 5]}},
        {
            "rope_scaling": {"type": "mrope", "mrope_section": [6, 5, 5]},
            "rope_theta": 5e6,
            "partial_rotary_factor": 0.5,
        },
        {"rope_theta": 5e6, "partial_rotary_factor": 0.5, "mrope_section": [6, 5, 5]},
        {
            "rope_theta": 1.5,
            "rope_parameters": {"rope_theta": 5e6, "partial_rotary_factor": 0.5, "mrope_section": [6, 5, 5]},
        },
    ],
)
def test_rotary_settings_are_found_wherever_a_writer_puts_them(where: dict[str, Any]) -> None:
    raw = text_config({"head_dim": 64})
    del raw["rope_parameters"]
    text = ModelConfig.from_dict({**raw, **where}).text
    assert (text.rope_theta, text.rotary_dim, text.mrope_section) == (5e6, 32, (6, 5, 5))


def test_without_sections_the_frequencies_are_shared_out() -> None:
    raw = text_config()
    del raw["rope_parameters"]["mrope_section"]  # type: ignore[index]
    assert sum(ModelConfig.from_dict(json.loads(json.dumps(raw))).text.mrope_section) == 4


def test_the_top_level_decides_about_tying() -> None:
    assert ModelConfig.from_dict({**nested(tie_word_embeddings=False)}).tie_word_embeddings
    config = nested(tie_word_embeddings=True)
    del config["tie_word_embeddings"]
    assert ModelConfig.from_dict(config).tie_word_embeddings


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
    ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
    ({"num_hidden_layers": -1}, "num_hidden_layers is -1"),
    ({"num_hidden_layers": 24.0}, "num_hidden_layers is 24.0"),
    ({"num_hidden_layers": "24"}, "num_hidden_layers is '24'"),
    ({"num_hidden_layers": True}, "num_hidden_layers is True"),
    ({"num_hidden_layers": 10**5000}, "hundreds of digits"),
    ({"num_hidden_layers": 23}, "one entry per layer (23), not 24"),
    ({"layer_types": ["full_attention"]}, "one entry per layer"),
    ({"layer_types": ["x"] * 24}, "layer_types"),
    ({"layer_types": [[]] * 24}, "layer_types"),
    ({"layer_types": "full_attention"}, "a list"),
    ({"full_attention_interval": 0}, "full_attention_interval"),
    ({"hidden_size": 2**40}, "hidden_size"),
    ({"hidden_size": [1]}, "hidden_size"),
    ({"vocab_size": 0}, "vocab_size"),
    ({"intermediate_size": -3}, "intermediate_size"),
    ({"num_key_value_heads": 3}, "a divisor of num_attention_heads 8"),
    ({"linear_num_value_heads": 24}, "a multiple of linear_num_key_heads 16"),
    ({"linear_conv_kernel_dim": 1}, "linear_conv_kernel_dim"),
    ({"rms_norm_eps": 0}, "rms_norm_eps"),
    ({"rms_norm_eps": "1e-6"}, "rms_norm_eps"),
    ({"rope_parameters": []}, "rope_parameters"),
    ({"rope_parameters": {"rope_theta": 0}}, "rope_theta"),
    ({"rope_parameters": {"partial_rotary_factor": 2}}, "partial_rotary_factor"),
    ({"rope_parameters": {"partial_rotary_factor": 0.001}}, "partial_rotary_factor"),
    ({"rope_parameters": {"mrope_section": [11, 11, 11]}}, "the sum 32"),
    ({"rope_parameters": {"mrope_section": [32]}}, "mrope_section"),
    ({"rope_parameters": {"mrope_section": [33, 0, -1]}}, "mrope_section"),
    ({"eos_token_id": "x"}, "eos_token_id"),
    ({"eos_token_id": [1] * 5000}, "eos_token_id"),
    ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
    ({"model_type": "qwen3_5_moe_text"}, "model_type"),
]


@pytest.mark.parametrize(("fields", "words"), WRONG, ids=[w for _, w in WRONG])
def test_an_impossible_value_is_refused_by_name_value_and_expectation(
    fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig.from_dict(nested(**fields))
    message = str(caught.value)
    assert words in message
    assert "expected" in message
    assert message.isprintable()
    assert len(message) < 400


UNSUPPORTED: list[tuple[dict[str, Any], str]] = [
    ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
    ({"attention_bias": True}, "attention_bias is True"),
    ({"attn_output_gate": False}, "attn_output_gate"),
    ({"mamba_ssm_dtype": "bfloat16"}, "mamba_ssm_dtype"),
    ({"mtp_num_hidden_layers": 2}, "mtp_num_hidden_layers"),
    ({"mtp_use_dedicated_embeddings": True}, "mtp_use_dedicated_embeddings"),
    ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "rope_type is 'yarn'"),
    ({"rope_parameters": {"mrope_interleaved": False}}, "mrope_interleaved"),
    ({"quantization_config": {"quant_method": "fp8"}}, "'fp8'"),
]


@pytest.mark.parametrize(("fields", "words"), UNSUPPORTED, ids=[w for _, w in UNSUPPORTED])
def test_a_setting_that_would_be_ignored_is_refused_instead(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words.replace("(", r"\(")):
        ModelConfig.from_dict(nested(**fields))


def test_a_mixture_with_dense_layers_or_without_renormalisation_is_refused() -> None:
    for fields in ({"mlp_only_layers": [0]}, {"norm_topk_prob": False}):
        with pytest.raises(UnsupportedError, match=next(iter(fields))):
            ModelConfig.from_dict(nested("35B-A3B", **fields))
    with pytest.raises(ConfigError, match="num_experts_per_tok"):
        ModelConfig.from_dict(nested("35B-A3B", num_experts_per_tok=257))
    with pytest.raises(ConfigError, match="num_experts"):
        ModelConfig.from_dict(nested("35B-A3B", num_experts=10**7))


@pytest.mark.parametrize(
    "raw",
    [
        {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
        {"model_type": "qwen3_next"},
        {"architectures": [7]},
        {"architectures": ["Evil\nName\x1b[31m" + "x" * 1000]},
    ],
)
def test_another_architecture_is_refused_with_the_list_of_ours(raw: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="Qwen3_5MoeForConditionalGeneration") as caught:
        ModelConfig.from_dict(raw)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_a_config_that_names_nothing_or_two_different_things_is_refused() -> None:
    with pytest.raises(ConfigError, match="neither architectures nor model_type"):
        ModelConfig.from_dict({})
    with pytest.raises(ConfigError, match="model_type"):
        ModelConfig.from_dict({"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_moe"})
    with pytest.raises(ConfigError, match="text_config"):
        ModelConfig.from_dict({"model_type": "qwen3_5", "text_config": "x"})


VISION_WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"depth": 10**9}, ConfigError, "depth"),
    ({"num_heads": 5}, ConfigError, "num_heads"),
    ({"num_position_embeddings": 2305}, ConfigError, "a square number"),
    ({"out_hidden_size": 512}, ConfigError, "hidden_size 1024"),
    ({"deepstack_visual_indexes": [5]}, UnsupportedError, "deepstack"),
    ({"hidden_act": "gelu"}, UnsupportedError, "hidden_act"),
]


@pytest.mark.parametrize(("fields", "error", "words"), VISION_WRONG, ids=[w for *_, w in VISION_WRONG])
def test_an_impossible_tower_is_refused(fields: dict[str, Any], error: type[Exception], words: str) -> None:
    config = nested()
    config["vision_config"].update(fields)
    with pytest.raises(error, match=words):
        ModelConfig.from_dict(config)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[]", "expected an object"),
        (b'{"model_type": "a", "model_type": "b"}', "twice"),
        (b'{"x": NaN}', "NaN"),
        (b'{"x": 1e999}', "too large"),
        (b'{"x": ' + b"1" * 5000 + b"}", "digits"),
        (b'{"x": ' + b"[" * 50_000, "deep"),
    ],
)
def test_a_damaged_file_is_refused_with_its_path(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        ModelConfig.from_file(path)
    assert str(path) in str(caught.value)


def test_a_missing_config_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        ModelConfig.from_file(tmp_path / "config.json")
