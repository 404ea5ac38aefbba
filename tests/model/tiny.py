"""Tiny random models: configurations that cover every shape relation, and weights from a seed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

L, F = "linear_attention", "full_attention"
HYBRID = [L, L, L, F]
BASE: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "layer_types": HYBRID,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "vocab_size": 131,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "attention_bias": False,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "eos_token_id": 0,
}


def _rope(theta: float, factor: float, section: list[int]) -> dict[str, Any]:
    return {
        "rope_type": "default",
        "rope_theta": theta,
        "partial_rotary_factor": factor,
        "mrope_section": section,
        "mrope_interleaved": True,
    }


ROPE = _rope(1e7, 0.25, [2, 1, 1])
SMALL_ROPE = _rope(1e4, 0.5, [2, 1, 1])

VARIANTS: dict[str, dict[str, Any]] = {
    "value_heads_1x": {"linear_num_key_heads": 3, "linear_num_value_heads": 3},
    "value_heads_2x": {},
    "value_heads_3x": {"linear_num_key_heads": 2, "linear_num_value_heads": 6},
    "tied": {"tie_word_embeddings": True},
    "odd_vocabulary": {"vocab_size": 257},
    "value_dim_wider": {"linear_key_head_dim": 8, "linear_value_head_dim": 24},
    "one_kv_head": {"num_attention_heads": 3, "num_key_value_heads": 1},
    "kv_heads_equal_heads": {"num_attention_heads": 2, "num_key_value_heads": 2},
    "eight_layers": {"num_hidden_layers": 8, "layer_types": HYBRID * 2},
    "attention_first": {"num_hidden_layers": 3, "layer_types": [F, L, F]},
    "conv_kernel_2": {"linear_conv_kernel_dim": 2},
    "half_rotary_theta_1e4": {"head_dim": 16, "rope_parameters": SMALL_ROPE},
    "odd_sizes": {
        "hidden_size": 37,
        "intermediate_size": 61,
        "num_attention_heads": 5,
        "num_key_value_heads": 1,
    },
    "bfloat16_tied_3x": {
        "linear_num_key_heads": 1,
        "linear_num_value_heads": 3,
        "tie_word_embeddings": True,
        "_dtype": "bfloat16",
    },
}


def config_dict(name: str) -> dict[str, Any]:
    """The flat text configuration of one variant, as a text-only re-save would publish it."""
    config = {**BASE, "rope_parameters": ROPE, **VARIANTS[name]}
    config.pop("_dtype", None)
    config["architectures"] = ["Qwen3_5ForCausalLM"]
    return config


# Chosen by tools/goldens/conditioning.py, which looks at the float64 oracle alone: with these seeds a
# relative noise of one float32 rounding on the weights moves no logit by much, so that a wrong equation
# cannot hide behind an ill-conditioned token (docs/numerics.md, "How close is close").
SEEDS = {
    "value_heads_1x": 1001,
    "value_heads_2x": 1001,
    "value_heads_3x": 1001,
    "tied": 1001,
    "odd_vocabulary": 1003,
    "value_dim_wider": 1019,
    "one_kv_head": 1001,
    "kv_heads_equal_heads": 1008,
    "eight_layers": 1014,
    "half_rotary_theta_1e4": 1001,
    "odd_sizes": 1002,
    "bfloat16_tied_3x": 1001,
}


def seed_of(name: str) -> int:
    return SEEDS.get(name, 1000)


def token_stream(name: str, n: int) -> NDArray[np.int32]:
    """The first n tokens of the variant's fixed random text."""
    rng = np.random.default_rng(seed_of(name) + 500)
    return rng.integers(0, config_dict(name)["vocab_size"], 512, dtype=np.int32)[:n]


def random_tensors(name: str) -> dict[str, NDArray[Any]]:
    """Canonical name -> values: mild gains, so that float32 rounding stays near 1e-5, and no norm at rest."""
    c = config_dict(name)
    rng = np.random.default_rng(seed_of(name))
    H, inner = c["hidden_size"], c["intermediate_size"]
    kd = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    hv, dv = c["linear_num_value_heads"], c["linear_value_head_dim"]
    conv_dim = 2 * kd + hv * dv
    nh, nkv, hd = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    out: dict[str, NDArray[Any]] = {}

    def matrix(key: str, rows: int, columns: int) -> None:
        out[key] = (rng.standard_normal((rows, columns)) * 0.7 / np.sqrt(columns)).astype(np.float32)

    def norm(key: str, size: int, mean: float = 0.0) -> None:
        out[key] = (mean + 0.3 * rng.standard_normal(size)).astype(np.float32)

    root = "model.language_model."
    out[root + "embed_tokens.weight"] = (0.5 * rng.standard_normal((c["vocab_size"], H))).astype(np.float32)
    for i, kind in enumerate(c["layer_types"]):
        at = f"{root}layers.{i}."
        norm(at + "input_layernorm.weight", H)
        norm(at + "post_attention_layernorm.weight", H)
        matrix(at + "mlp.gate_proj.weight", inner, H)
        matrix(at + "mlp.up_proj.weight", inner, H)
        matrix(at + "mlp.down_proj.weight", H, inner)
        if kind == L:
            la = at + "linear_attn."
            matrix(la + "in_proj_qkv.weight", conv_dim, H)
            matrix(la + "in_proj_z.weight", hv * dv, H)
            matrix(la + "in_proj_b.weight", hv, H)
            matrix(la + "in_proj_a.weight", hv, H)
            kernel = c["linear_conv_kernel_dim"]
            out[la + "conv1d.weight"] = (rng.standard_normal((conv_dim, 1, kernel)) / np.sqrt(kernel)).astype(
                np.float32
            )
            out[la + "A_log"] = np.log(rng.uniform(1, 16, hv)).astype(np.float32)
            out[la + "dt_bias"] = rng.uniform(-4, 1, hv).astype(np.float32)
            norm(la + "norm.weight", dv, mean=1.0)
            matrix(la + "out_proj.weight", H, hv * dv)
        else:
            sa = at + "self_attn."
            matrix(sa + "q_proj.weight", nh * 2 * hd, H)
            matrix(sa + "k_proj.weight", nkv * hd, H)
            matrix(sa + "v_proj.weight", nkv * hd, H)
            matrix(sa + "o_proj.weight", H, nh * hd)
            norm(sa + "q_norm.weight", hd)
            norm(sa + "k_norm.weight", hd)
    norm(root + "norm.weight", H)
    if not c["tie_word_embeddings"]:
        matrix("lm_head.weight", c["vocab_size"], H)
    if VARIANTS[name].get("_dtype") == "bfloat16":
        keep = ("A_log", "linear_attn.norm.weight")
        out = {k: v if k.endswith(keep) else v.astype(ml_dtypes.bfloat16) for k, v in out.items()}
    return out
