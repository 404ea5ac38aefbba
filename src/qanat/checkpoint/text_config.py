"""The text model's configuration: published field names, defaults when absent, and validation.

Source: docs/model.md, section 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qanat.checkpoint import sizes
from qanat.checkpoint.fields import Fields
from qanat.checkpoint.rope import read_rope
from qanat.errors import UnsupportedError

__all__ = ["FULL_ATTENTION", "LINEAR_ATTENTION", "MoEConfig", "TextConfig"]

LINEAR_ATTENTION = "linear_attention"
FULL_ATTENTION = "full_attention"

# Bounds of plausibility: several times the largest published model, small enough to be harmless.
MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20
MAX_HEADS = 4096
MAX_HEAD_DIM = 4096
MAX_VOCAB = 1 << 24
MAX_EXPERTS = 4096
MAX_POSITIONS = 1 << 30


@dataclass(frozen=True)
class MoEConfig:
    """The mixture-of-experts feed-forward (docs/model.md, section 6)."""

    num_experts: int  # E
    num_experts_per_tok: int  # top-k; the k weights are always renormalised
    moe_intermediate_size: int  # Im, the width of one routed expert
    shared_expert_intermediate_size: int  # Is

    @classmethod
    def from_fields(cls, fields: Fields) -> MoEConfig:
        """Read the mixture's fields; the defaults are those of the published class."""
        fields.only("norm_topk_prob", (True,), "Qwen3.5 always renormalises the chosen experts' weights")
        if fields.sequence("mlp_only_layers"):
            raise UnsupportedError(
                f"{fields.where}: mlp_only_layers is not empty; qanat expects every layer to be sparse"
            )
        experts = fields.integer("num_experts", 256, high=MAX_EXPERTS)
        shared = fields.integer("shared_expert_intermediate_size", 512, high=MAX_WIDTH)
        return cls(
            num_experts=experts,
            num_experts_per_tok=fields.integer("num_experts_per_tok", 8, high=experts),
            moe_intermediate_size=fields.integer("moe_intermediate_size", 512, high=MAX_WIDTH),
            shared_expert_intermediate_size=shared,
        )


@dataclass(frozen=True)
class TextConfig:
    """The text model. Field names are the published ones; sizes are counts of numbers, not bytes."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int | None  # None in a mixture of experts
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    layer_types: tuple[str, ...]  # LINEAR_ATTENTION or FULL_ATTENTION, one per layer
    linear_conv_kernel_dim: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    linear_num_key_heads: int
    linear_num_value_heads: int
    rope_theta: float
    partial_rotary_factor: float
    mrope_section: tuple[int, int, int]
    max_position_embeddings: int
    mtp_num_hidden_layers: int  # 0 or 1
    eos_token_id: tuple[int, ...]  # as the file says, () when it says nothing
    tie_word_embeddings: bool
    moe: MoEConfig | None

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], *, moe: bool, tied: bool, where: str = "config") -> TextConfig:
        """Read the text fields of a config.

        Args:
            d: `text_config`, or the whole of a flat (text-only) config.
            moe: whether the architecture is the mixture of experts.
            tied: `tie_word_embeddings`, which may sit outside of `d`.
            where: how messages call this object.

        Raises:
            ConfigError: a field is of the wrong type, out of bounds, or contradicts another.
            UnsupportedError: a valid setting that qanat does not implement.
        """
        fields = Fields(d, where)
        _refuse_unsupported(fields)
        layers = fields.integer("num_hidden_layers", 40 if moe else 32, high=MAX_LAYERS)
        heads = fields.integer("num_attention_heads", 16, high=MAX_HEADS)
        kv_heads = fields.integer("num_key_value_heads", 2 if moe else 4, high=MAX_HEADS)
        if heads % kv_heads:
            raise fields.fail("num_key_value_heads", f"a divisor of num_attention_heads {heads}")
        key_heads = fields.integer("linear_num_key_heads", 16, high=MAX_HEADS)
        value_heads = fields.integer("linear_num_value_heads", 32, high=MAX_HEADS)
        if value_heads % key_heads:
            raise fields.fail("linear_num_value_heads", f"a multiple of linear_num_key_heads {key_heads}")
        head_dim = fields.integer("head_dim", 256, high=MAX_HEAD_DIM)
        rope = read_rope(fields, head_dim)
        return cls(
            vocab_size=fields.integer("vocab_size", 248320, high=MAX_VOCAB),
            hidden_size=fields.integer("hidden_size", 2048 if moe else 4096, high=MAX_WIDTH),
            intermediate_size=None if moe else fields.integer("intermediate_size", 12288, high=MAX_WIDTH),
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=head_dim,
            rms_norm_eps=fields.real("rms_norm_eps", 1e-6, above=0.0, high=1.0),
            layer_types=_layer_types(fields, layers),
            linear_conv_kernel_dim=fields.integer("linear_conv_kernel_dim", 4, low=2, high=64),
            linear_key_head_dim=fields.integer("linear_key_head_dim", 128, high=MAX_HEAD_DIM),
            linear_value_head_dim=fields.integer("linear_value_head_dim", 128, high=MAX_HEAD_DIM),
            linear_num_key_heads=key_heads,
            linear_num_value_heads=value_heads,
            rope_theta=rope.theta,
            partial_rotary_factor=rope.factor,
            mrope_section=rope.section,
            max_position_embeddings=fields.integer("max_position_embeddings", 32768, high=MAX_POSITIONS),
            mtp_num_hidden_layers=_mtp_layers(fields),
            eos_token_id=fields.token_ids("eos_token_id"),
            tie_word_embeddings=tied,
            moe=MoEConfig.from_fields(fields) if moe else None,
        )

    @property
    def rotary_dim(self) -> int:
        """How many of the first dimensions of a head are rotated."""
        return int(self.head_dim * self.partial_rotary_factor)

    @property
    def kd(self) -> int:
        """All query (or key) columns of a linear-attention layer: Hk * dk."""
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def vd(self) -> int:
        """All value columns of a linear-attention layer: Hv * dv."""
        return self.linear_num_value_heads * self.linear_value_head_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the short convolution: q, then k, then v."""
        return 2 * self.kd + self.vd

    @property
    def num_linear_layers(self) -> int:
        """How many layers are Gated DeltaNet."""
        return self.layer_types.count(LINEAR_ATTENTION)

    @property
    def num_full_layers(self) -> int:
        """How many layers are gated full attention."""
        return self.layer_types.count(FULL_ATTENTION)

    @property
    def num_parameters(self) -> int:
        """Numbers in the text model: embedding, layers, final norm, and the head unless tied."""
        return sizes.text_parameters(self)

    @property
    def num_mtp_parameters(self) -> int:
        """Numbers in the multi-token-prediction layer (0 without one)."""
        return sizes.mtp_parameters(self)

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values per token of context, stored in 16 bits."""
        return sizes.kv_bytes_per_token(self)

    @property
    def recurrent_state_bytes(self) -> int:
        """Bytes of float32 recurrent state per sequence."""
        return sizes.recurrent_state_bytes(self)

    @property
    def conv_state_bytes(self) -> int:
        """Bytes of the convolution windows per sequence, stored in 16 bits."""
        return sizes.conv_state_bytes(self)

    @property
    def bytes_read_per_token(self) -> int:
        """Bytes of 16-bit weights read to decode one token alone."""
        return sizes.bytes_read_per_token(self)


def _refuse_unsupported(fields: Fields) -> None:
    fields.only("hidden_act", ("silu",), "it is the activation of every Qwen3.5 text model")
    fields.only("attention_bias", (False,), "Qwen3.5 projections have no bias")
    fields.only("attn_output_gate", (True,), "the attention of Qwen3.5 is always gated")
    fields.only("output_gate_type", ("swish", "silu", "sigmoid"), "the gates of Qwen3.5 are fixed")
    fields.only("mamba_ssm_dtype", ("float32",), "the recurrent state drifts in fewer bits")
    fields.only("mtp_use_dedicated_embeddings", (False,), "the draft layer shares the trunk's embedding")


def _mtp_layers(fields: Fields) -> int:
    count = fields.integer("mtp_num_hidden_layers", 0, low=0, high=MAX_LAYERS)
    if count > 1:
        raise UnsupportedError(f"{fields.where}: mtp_num_hidden_layers is {count}; qanat knows 0 or 1")
    return count


def _layer_types(fields: Fields, layers: int) -> tuple[str, ...]:
    """Read `layer_types`, or derive it: layer i is full attention when (i + 1) % interval == 0."""
    interval = fields.integer("full_attention_interval", 4, high=MAX_LAYERS)
    listed = fields.sequence("layer_types")
    if listed is None:
        return tuple(LINEAR_ATTENTION if (i + 1) % interval else FULL_ATTENTION for i in range(layers))
    if len(listed) != layers:
        raise fields.fail("layer_types", f"one entry per layer ({layers}), not {len(listed)}")
    if any(kind not in (LINEAR_ATTENTION, FULL_ATTENTION) for kind in listed):
        raise fields.fail("layer_types", f"only {LINEAR_ATTENTION!r} and {FULL_ATTENTION!r}")
    return tuple(listed)
