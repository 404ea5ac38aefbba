"""config.json and the small files beside it, as the published Qwen3.5 checkpoints of each size have them."""

from __future__ import annotations

from typing import Any

# size: (hidden, layers, heads, kv heads, value heads, intermediate or None, tied,
#        (experts, per token, expert width, shared width) or None, (tower depth, hidden, intermediate, heads))
_SIZES: dict[str, tuple[Any, ...]] = {
    "0.8B": (1024, 24, 8, 2, 16, 3584, True, None, (12, 768, 3072, 12)),
    "2B": (2048, 24, 8, 2, 16, 6144, True, None, (24, 1024, 4096, 16)),
    "4B": (2560, 32, 16, 4, 32, 9216, True, None, (24, 1024, 4096, 16)),
    "9B": (4096, 32, 16, 4, 32, 12288, False, None, (27, 1152, 4304, 16)),
    "27B": (5120, 64, 24, 4, 48, 17408, False, None, (27, 1152, 4304, 16)),
    "35B-A3B": (2048, 40, 16, 2, 32, None, False, (256, 8, 512, 512), (27, 1152, 4304, 16)),
    "122B-A10B": (3072, 48, 32, 2, 64, None, False, (256, 8, 1024, 1024), (27, 1152, 4304, 16)),
    "397B-A17B": (4096, 60, 32, 2, 64, None, False, (512, 10, 1024, 1024), (27, 1152, 4304, 16)),
}
SIZES = (*_SIZES, "tiny")


def _rope(section: list[int]) -> dict[str, Any]:
    return {
        "mrope_interleaved": True,
        "mrope_section": section,
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
    }


def _wrap(moe: bool, tied: bool, text: dict[str, Any], vision: dict[str, Any]) -> dict[str, Any]:
    kind = "qwen3_5_moe" if moe else "qwen3_5"
    layers = text["num_hidden_layers"]
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration" if moe else "Qwen3_5ForConditionalGeneration"],
        "image_token_id": 248056,
        "model_type": kind,
        "text_config": {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "attn_output_gate": True,
            "dtype": "bfloat16",
            "eos_token_id": 248044,
            "full_attention_interval": 4,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "layer_types": ["linear_attention" if (i + 1) % 4 else "full_attention" for i in range(layers)],
            "linear_conv_kernel_dim": 4,
            "max_position_embeddings": 262144,
            "mlp_only_layers": [],
            "model_type": kind + "_text",
            "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": False,
            "rms_norm_eps": 1e-06,
            "use_cache": True,
            "mamba_ssm_dtype": "float32",
            **text,
        },
        "tie_word_embeddings": tied,
        "video_token_id": 248057,
        "vision_config": {
            "deepstack_visual_indexes": [],
            "hidden_act": "gelu_pytorch_tanh",
            "in_channels": 3,
            "initializer_range": 0.02,
            "model_type": kind,
            "num_position_embeddings": 2304,
            "out_hidden_size": text["hidden_size"],
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            **vision,
        },
        "vision_end_token_id": 248054,
        "vision_start_token_id": 248053,
    }


def published_config(size: str) -> dict[str, Any]:
    """Build config.json of a published size, e.g. "0.8B"."""
    hidden, layers, heads, kv_heads, value_heads, width, tied, moe, tower = _SIZES[size]
    text: dict[str, Any] = {
        "head_dim": 256,
        "hidden_size": hidden,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": value_heads,
        "linear_value_head_dim": 128,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": kv_heads,
        "vocab_size": 248320,
        "rope_parameters": _rope([11, 11, 10]),
    }
    if tied:
        text["tie_word_embeddings"] = True
    if moe is None:
        text["intermediate_size"] = width
    else:
        text["num_experts"], text["num_experts_per_tok"] = moe[0], moe[1]
        text["moe_intermediate_size"], text["shared_expert_intermediate_size"] = moe[2], moe[3]
        text["router_aux_loss_coef"] = 0.001
    depth, tower_hidden, tower_width, tower_heads = tower
    vision = {
        "depth": depth,
        "hidden_size": tower_hidden,
        "intermediate_size": tower_width,
        "num_heads": tower_heads,
    }
    return _wrap(moe is not None, tied, text, vision)


def tiny_config(vocab_size: int) -> dict[str, Any]:
    """Build config.json of a model with all parts (text, MTP, vision) and 8 small layers."""
    text = {
        "head_dim": 32,
        "hidden_size": 64,
        "intermediate_size": 128,
        "linear_key_head_dim": 16,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 8,
        "linear_value_head_dim": 16,
        "max_position_embeddings": 4096,
        "num_attention_heads": 4,
        "num_hidden_layers": 8,
        "num_key_value_heads": 2,
        "vocab_size": vocab_size,
        "rope_parameters": _rope([2, 1, 1]),
        "tie_word_embeddings": True,
    }
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 4,
        "num_position_embeddings": 64,
    }
    return _wrap(False, True, text, vision)


def generation_config(size: str) -> dict[str, Any] | None:
    """Build generation_config.json; the published small sizes (0.8B to 9B) have none."""
    if size in ("0.8B", "2B", "4B", "9B", "tiny"):
        return None
    return {
        "bos_token_id": 248044,
        "do_sample": True,
        "eos_token_id": [248046, 248044],
        "pad_token_id": 248044,
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
    }


def preprocessor_configs() -> dict[str, dict[str, Any]]:
    """Build the two files that say how images and videos become patches; sizes are areas in pixels."""
    common = {
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "processor_class": "Qwen3VLProcessor",
    }
    return {
        "preprocessor_config.json": {
            "size": {"longest_edge": 4096 * 4096, "shortest_edge": 256 * 256},
            **common,
            "image_processor_type": "Qwen2VLImageProcessorFast",
        },
        "video_preprocessor_config.json": {
            "size": {"longest_edge": 6 * 4096 * 1024, "shortest_edge": 64 * 64},
            **common,
            "video_processor_type": "Qwen3VLVideoProcessor",
        },
    }


def thinks_by_default(size: str) -> bool:
    """Whether the size's chat template opens a thought unless told not to."""
    return size not in ("0.8B", "2B", "tiny")
