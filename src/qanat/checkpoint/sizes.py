"""Parameter counts, state and traffic in closed form: the arithmetic behind the size table.

Counted from the formulas of docs/model.md (sections 1 and 2), not from tensors, so that a planner can ask
before any file exists; the tests hold these sums and the tensor table (`names.expected_tensors`) together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.checkpoint.text_config import TextConfig
    from qanat.checkpoint.vision_config import VisionConfig

__all__ = [
    "bytes_read_per_token",
    "conv_state_bytes",
    "kv_bytes_per_token",
    "mtp_bytes_read_per_step",
    "mtp_kv_bytes_per_token",
    "mtp_parameters",
    "recurrent_state_bytes",
    "text_parameters",
    "vision_parameters",
]


def _attention(c: TextConfig) -> int:
    query_and_gate = c.num_attention_heads * 2 * c.head_dim
    keys_and_values = 2 * c.num_key_value_heads * c.head_dim
    output = c.num_attention_heads * c.head_dim
    return c.hidden_size * (query_and_gate + keys_and_values + output) + 2 * c.head_dim


def _delta_net(c: TextConfig) -> int:
    projections = c.hidden_size * (c.conv_dim + c.vd + 2 * c.linear_num_value_heads + c.vd)
    small = c.conv_dim * c.linear_conv_kernel_dim + 2 * c.linear_num_value_heads + c.linear_value_head_dim
    return projections + small


def _mlp(c: TextConfig, *, active: bool) -> int:
    """Count one feed-forward: all of it, or what one token touches (routed experts only)."""
    if c.moe is None:
        assert c.intermediate_size is not None
        return 3 * c.hidden_size * c.intermediate_size
    experts = c.moe.num_experts_per_tok if active else c.moe.num_experts
    routed = experts * 3 * c.hidden_size * c.moe.moe_intermediate_size
    shared = 3 * c.hidden_size * c.moe.shared_expert_intermediate_size + c.hidden_size
    router = c.moe.num_experts * c.hidden_size
    return routed + shared + router


def _trunk(c: TextConfig, *, active: bool) -> int:
    mixers = c.num_full_layers * _attention(c) + c.num_linear_layers * _delta_net(c)
    return mixers + c.num_hidden_layers * (_mlp(c, active=active) + 2 * c.hidden_size) + c.hidden_size


def _mtp(c: TextConfig, *, active: bool) -> int:
    layer = _attention(c) + _mlp(c, active=active) + 2 * c.hidden_size
    return c.mtp_num_hidden_layers * (2 * c.hidden_size**2 + 3 * c.hidden_size + layer)


def text_parameters(c: TextConfig) -> int:
    """Numbers in the text model; a tied head counts once."""
    return _trunk(c, active=False) + c.vocab_size * c.hidden_size * (1 if c.tie_word_embeddings else 2)


def mtp_parameters(c: TextConfig) -> int:
    """Numbers in the draft layer, which has neither embedding nor head of its own."""
    return _mtp(c, active=False)


def vision_parameters(v: VisionConfig) -> int:
    """Numbers in the vision tower and its merger."""
    patch = v.in_channels * v.temporal_patch_size * v.patch_size**2
    hid, inter = v.hidden_size, v.intermediate_size
    block = 4 * hid + (3 * hid * hid + 3 * hid) + (hid * hid + hid) + (2 * hid * inter + inter + hid)
    merged = hid * v.spatial_merge_size**2
    merger = 2 * hid + (merged * merged + merged) + (v.out_hidden_size * merged + v.out_hidden_size)
    return hid * patch + hid + v.num_position_embeddings * hid + v.depth * block + merger


def bytes_read_per_token(c: TextConfig, weight_bytes: int = 2) -> int:
    """Bytes of weights touched to decode one token alone: layers, final norm, head; not the embedding row."""
    return weight_bytes * (_trunk(c, active=True) + c.vocab_size * c.hidden_size)


def mtp_bytes_read_per_step(c: TextConfig, weight_bytes: int = 2) -> int:
    """Bytes of weights one draft step touches, without the head."""
    return weight_bytes * _mtp(c, active=True)


def kv_bytes_per_token(c: TextConfig, element_bytes: int = 2) -> int:
    """Bytes of keys and values that one token adds to the context, over all full-attention layers."""
    return c.num_full_layers * 2 * c.num_key_value_heads * c.head_dim * element_bytes


def mtp_kv_bytes_per_token(c: TextConfig, element_bytes: int = 2) -> int:
    """Bytes of keys and values of the draft layer per token."""
    return c.mtp_num_hidden_layers * 2 * c.num_key_value_heads * c.head_dim * element_bytes


def recurrent_state_bytes(c: TextConfig) -> int:
    """Bytes of the recurrent matrices [Hv, dk, dv] of one sequence, always float32."""
    return c.num_linear_layers * c.vd * c.linear_key_head_dim * 4


def conv_state_bytes(c: TextConfig, element_bytes: int = 2) -> int:
    """Bytes of the convolution windows [Kc - 1, conv_dim] of one sequence."""
    return c.num_linear_layers * (c.linear_conv_kernel_dim - 1) * c.conv_dim * element_bytes
