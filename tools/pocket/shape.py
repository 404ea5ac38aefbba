"""The miniature's shape: a Qwen3.5 of about a million parameters, and how its weights start.

`config_json` is what the checkpoint publishes; `fresh_model` builds the same graph in transformers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .tokenizer import token_id

if TYPE_CHECKING:
    from transformers import Qwen3_5ForCausalLM

VOCAB_SIZE = 1_024  # a multiple of 64; the rows above the 992 live tokens are dead, as in the published ones
HIDDEN = 128
INTERMEDIATE = 384
LAYERS = 4
MAX_POSITIONS = 4_096


def text_config(mtp_layers: int = 0) -> dict[str, Any]:
    """The inner `text_config` of config.json, with no layer for multi-token prediction or one."""
    kinds = ["full_attention" if (i + 1) % 4 == 0 else "linear_attention" for i in range(LAYERS)]
    return {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "dtype": "bfloat16",
        "eos_token_id": token_id("<|endoftext|>"),
        "full_attention_interval": 4,
        "head_dim": 32,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": INTERMEDIATE,
        "layer_types": kinds,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 32,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 4,
        "linear_value_head_dim": 32,
        "max_position_embeddings": MAX_POSITIONS,
        "mlp_only_layers": [],
        "model_type": "qwen3_5_text",
        "mtp_num_hidden_layers": mtp_layers,
        "mtp_use_dedicated_embeddings": False,
        "num_attention_heads": 4,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06,
        "tie_word_embeddings": True,
        "use_cache": True,
        "vocab_size": VOCAB_SIZE,
        "mamba_ssm_dtype": "float32",
        "rope_parameters": {
            "mrope_interleaved": True,
            "mrope_section": [2, 1, 1],
            "rope_type": "default",
            "rope_theta": 10_000,
            "partial_rotary_factor": 0.25,
        },
    }


def config_json(mtp_layers: int) -> dict[str, Any]:
    """The contents of config.json: nested as published, without a vision tower."""
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "image_token_id": token_id("<|image_pad|>"),
        "model_type": "qwen3_5",
        "text_config": text_config(mtp_layers),
        "tie_word_embeddings": True,
        "transformers_version": "5.3.0",
        "video_token_id": token_id("<|video_pad|>"),
        "vision_end_token_id": token_id("<|vision_end|>"),
        "vision_start_token_id": token_id("<|vision_start|>"),
    }


def generation_config_json() -> dict[str, Any]:
    """The contents of generation_config.json: greedy and short, because a model this small rambles."""
    return {
        "bos_token_id": token_id("<|endoftext|>"),
        "do_sample": False,
        "eos_token_id": [token_id("<|im_end|>"), token_id("<|endoftext|>")],
        "max_new_tokens": 512,
        "pad_token_id": token_id("<|endoftext|>"),
        "transformers_version": "5.3.0",
    }


def fresh_model(seed: int) -> Qwen3_5ForCausalLM:
    """A new model in float32 with a start that suits it.

    Two things differ from the library's default. The decay of each delta-rule head starts at a time constant
    between a few and a thousand tokens (the default forgets within a few tokens), and projections that write
    into the residual stream start smaller, by the square root of their number.
    """
    import torch
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    torch.manual_seed(seed)
    model = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**{**text_config(), "dtype": "float32"}))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("A_log"):
                weight.copy_(torch.empty_like(weight).uniform_(1, 16).log())
            elif name.endswith("dt_bias"):
                step = torch.empty_like(weight).uniform_(math.log(1e-3), math.log(1e-1)).exp()
                weight.copy_(step + torch.log(-torch.expm1(-step)))  # inverse of softplus
            elif name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
                weight.div_(math.sqrt(2 * LAYERS))
    return model
