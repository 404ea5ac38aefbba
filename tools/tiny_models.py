"""Tiny random text-only checkpoints for tests: a folder with config.json and model.safetensors, no tokenizer.

They have every feature of the architecture (both mixers, grouped heads, more value heads than key heads,
partial rotary) at sizes where a NumPy forward pass takes milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qanat.checkpoint.config import ModelConfig
from qanat.checkpoint.names import ExpertLayout, expected_tensors, moe_blocks
from qanat.checkpoint.safetensors_write import TensorPlan, write_planned
from tools.random_weights import random_blocks

TINY_TEXT: Mapping[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 8,  # 6 linear, 2 full
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
    },
    "max_position_embeddings": 4096,
    "mtp_num_hidden_layers": 0,
    "eos_token_id": 0,
    "tie_word_embeddings": False,
}
TINY_MOE: Mapping[str, Any] = {
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48,
}


def text_config(overrides: Mapping[str, Any] | None = None, *, moe: bool = False) -> dict[str, Any]:
    """Build the flat config.json of a tiny model, with fields overridden at will."""
    kind = "qwen3_5_moe_text" if moe else "qwen3_5_text"
    name = "Qwen3_5MoeForCausalLM" if moe else "Qwen3_5ForCausalLM"
    config = {"architectures": [name], "model_type": kind, **TINY_TEXT, **(TINY_MOE if moe else {})}
    return {**config, **(overrides or {})}


def random_checkpoint(
    folder: str | Path,
    text_config_overrides: Mapping[str, Any] | None = None,
    seed: int = 0,
    *,
    moe: bool = False,
    dtype: str = "F32",
    expert_layout: ExpertLayout = "stacked",
) -> Path:
    """Write a tiny checkpoint with random weights into a folder, which is made if it is not there.

    Args:
        folder: where.
        text_config_overrides: fields of `text_config` to change, e.g. `{"mtp_num_hidden_layers": 1}`.
        seed: the same seed gives the same numbers in every tensor of the same name and shape.
        moe: a mixture of experts instead of a dense feed-forward.
        dtype: "F32", "BF16" or "F16". A_log and linear_attn.norm.weight are always F32, as published.
        expert_layout: how the experts are stored.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    raw = text_config(text_config_overrides, moe=moe)
    (folder / "config.json").write_text(json.dumps(raw, indent=2) + "\n")
    config = ModelConfig.from_dict(raw)
    layouts: dict[str, ExpertLayout] = dict.fromkeys(moe_blocks(config.text), expert_layout)
    plans = [
        TensorPlan(name, stored_dtype(name, dtype), want.shape)
        for name, want in expected_tensors(config, layouts).items()
    ]
    tied = config.tie_word_embeddings
    write_planned(folder / "model.safetensors", plans, lambda plan: random_blocks(plan, seed, tied=tied))
    return folder


def stored_dtype(name: str, dtype: str) -> str:
    """Say how a published checkpoint of this type stores a tensor: two families stay F32."""
    return "F32" if name.endswith(("linear_attn.A_log", "linear_attn.norm.weight")) else dtype
