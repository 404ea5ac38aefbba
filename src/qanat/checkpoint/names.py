"""Every tensor a checkpoint must hold: published name, shape and allowed types, from the configuration.

Source: docs/model.md, section 2. Shapes are [out, in] as stored; nothing is transposed.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from qanat.checkpoint.config import ModelConfig
from qanat.checkpoint.text_config import FULL_ATTENTION, TextConfig
from qanat.checkpoint.vision_config import VisionConfig

__all__ = [
    "FLOATS",
    "HEAD",
    "MTP",
    "TEXT",
    "VISION",
    "Expected",
    "ExpertLayout",
    "expected_tensors",
    "moe_blocks",
    "mtp_tensors",
    "text_tensors",
    "vision_tensors",
]

TEXT = "model.language_model."
VISION = "model.visual."
MTP = "mtp."
HEAD = "lm_head.weight"

# Which of these a tensor has is read from its header, never assumed: releases differ (A_log is F32 in one
# and BF16 in the next).
FLOATS = ("BF16", "F16", "F32")

ExpertLayout = Literal["stacked", "per_expert"]


class Expected(NamedTuple):
    """What the configuration says about one tensor."""

    shape: tuple[int, ...]
    dtypes: tuple[str, ...]  # names as in a safetensors header


Table = dict[str, Expected]


def _put(table: Table, prefix: str, shapes: dict[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        table[prefix + name] = Expected(shape, FLOATS)


def _attention(c: TextConfig) -> dict[str, tuple[int, ...]]:
    H, columns, kv = c.hidden_size, c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    return {
        "q_proj.weight": (2 * columns, H),  # per head: head_dim query rows, then head_dim gate rows
        "k_proj.weight": (kv, H),
        "v_proj.weight": (kv, H),
        "o_proj.weight": (H, columns),
        "q_norm.weight": (c.head_dim,),
        "k_norm.weight": (c.head_dim,),
    }


def _delta_net(c: TextConfig) -> dict[str, tuple[int, ...]]:
    H, Hv = c.hidden_size, c.linear_num_value_heads
    return {
        "in_proj_qkv.weight": (c.conv_dim, H),  # all q rows, then all k rows, then all v rows
        "in_proj_z.weight": (c.vd, H),
        "in_proj_b.weight": (Hv, H),
        "in_proj_a.weight": (Hv, H),
        "conv1d.weight": (c.conv_dim, 1, c.linear_conv_kernel_dim),
        "A_log": (Hv,),
        "dt_bias": (Hv,),
        "norm.weight": (c.linear_value_head_dim,),
        "out_proj.weight": (H, c.vd),
    }


def _mlp(c: TextConfig, layout: ExpertLayout) -> dict[str, tuple[int, ...]]:
    H = c.hidden_size
    if c.moe is None:
        assert c.intermediate_size is not None
        width = c.intermediate_size
        return {
            "gate_proj.weight": (width, H),
            "up_proj.weight": (width, H),
            "down_proj.weight": (H, width),
        }
    E, Im, Is = c.moe.num_experts, c.moe.moe_intermediate_size, c.moe.shared_expert_intermediate_size
    shapes: dict[str, tuple[int, ...]] = {
        "gate.weight": (E, H),
        "shared_expert.gate_proj.weight": (Is, H),
        "shared_expert.up_proj.weight": (Is, H),
        "shared_expert.down_proj.weight": (H, Is),
        "shared_expert_gate.weight": (1, H),
    }
    if layout == "stacked":
        shapes["experts.gate_up_proj"] = (E, 2 * Im, H)  # the first Im rows gate, the last Im rows up
        shapes["experts.down_proj"] = (E, H, Im)
        return shapes
    for e in range(E):
        shapes[f"experts.{e}.gate_proj.weight"] = (Im, H)
        shapes[f"experts.{e}.up_proj.weight"] = (Im, H)
        shapes[f"experts.{e}.down_proj.weight"] = (H, Im)
    return shapes


def _layer(table: Table, prefix: str, c: TextConfig, full: bool, layout: ExpertLayout) -> None:
    norms = {"input_layernorm.weight": (c.hidden_size,), "post_attention_layernorm.weight": (c.hidden_size,)}
    _put(table, prefix, dict(norms))
    if full:
        _put(table, prefix + "self_attn.", _attention(c))
    else:
        _put(table, prefix + "linear_attn.", _delta_net(c))
    _put(table, prefix + "mlp.", _mlp(c, layout))


def text_tensors(c: TextConfig, layouts: dict[str, ExpertLayout] | None = None) -> Table:
    """The text model's tensors; without the head when it is tied to the embedding.

    Args:
        c: the text configuration.
        layouts: how the experts of a block (`moe_blocks`) are stored; stacked when not said.
    """
    table: Table = {}
    _put(table, TEXT, {"embed_tokens.weight": (c.vocab_size, c.hidden_size), "norm.weight": (c.hidden_size,)})
    for i, kind in enumerate(c.layer_types):
        prefix = f"{TEXT}layers.{i}."
        layout = (layouts or {}).get(prefix + "mlp.experts.", "stacked")
        _layer(table, prefix, c, kind == FULL_ATTENTION, layout)
    if not c.tie_word_embeddings:
        _put(table, "", {HEAD: (c.vocab_size, c.hidden_size)})
    return table


def mtp_tensors(c: TextConfig, layouts: dict[str, ExpertLayout] | None = None) -> Table:
    """The multi-token-prediction layer's tensors: one full-attention layer and its way in and out."""
    table: Table = {}
    H = c.hidden_size
    for i in range(c.mtp_num_hidden_layers):
        prefix = f"{MTP}layers.{i}."
        layout = (layouts or {}).get(prefix + "mlp.experts.", "stacked")
        _layer(table, prefix, c, True, layout)
        shapes: dict[str, tuple[int, ...]] = {
            "fc.weight": (H, 2 * H),  # columns of the embedding first, then those of the hidden row
            "pre_fc_norm_embedding.weight": (H,),
            "pre_fc_norm_hidden.weight": (H,),
            "norm.weight": (H,),
        }
        _put(table, MTP, shapes)
    return table


def vision_tensors(v: VisionConfig) -> Table:
    """The vision tower's tensors. Every linear layer and norm has a bias."""
    table: Table = {}
    hid, inter = v.hidden_size, v.intermediate_size
    merged = hid * v.spatial_merge_size**2

    def linear(name: str, out: int, *inputs: int) -> None:
        _put(table, VISION, {f"{name}.weight": (out, *inputs), f"{name}.bias": (out,)})

    linear("patch_embed.proj", hid, v.in_channels, v.temporal_patch_size, v.patch_size, v.patch_size)
    _put(table, VISION, {"pos_embed.weight": (v.num_position_embeddings, hid)})
    for i in range(v.depth):
        linear(f"blocks.{i}.norm1", hid)
        linear(f"blocks.{i}.norm2", hid)
        linear(f"blocks.{i}.attn.qkv", 3 * hid, hid)
        linear(f"blocks.{i}.attn.proj", hid, hid)
        linear(f"blocks.{i}.mlp.linear_fc1", inter, hid)
        linear(f"blocks.{i}.mlp.linear_fc2", hid, inter)
    linear("merger.norm", hid)
    linear("merger.linear_fc1", merged, merged)
    linear("merger.linear_fc2", v.out_hidden_size, merged)
    return table


def expected_tensors(config: ModelConfig, layouts: dict[str, ExpertLayout] | None = None) -> Table:
    """All tensors of a full checkpoint, trunk, draft layer and vision tower, in the published form.

    Args:
        config: the parsed config.json.
        layouts: how the experts of a block (`moe_blocks`) are stored; stacked when not said.

    Returns:
        Published name -> (shape, allowed types as a safetensors header names them).
    """
    table = text_tensors(config.text, layouts) | mtp_tensors(config.text, layouts)
    return table | vision_tensors(config.vision) if config.vision else table


def moe_blocks(c: TextConfig) -> list[str]:
    """The name prefixes of all blocks of routed experts, e.g. `mtp.layers.0.mlp.experts.`."""
    if c.moe is None:
        return []
    trunk = [f"{TEXT}layers.{i}.mlp.experts." for i in range(c.num_hidden_layers)]
    return trunk + [f"{MTP}layers.{i}.mlp.experts." for i in range(c.mtp_num_hidden_layers)]
