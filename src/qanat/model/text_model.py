"""The hybrid text model of Qwen3.5, written once over `Ops` (docs/model.md, sections 3 to 6).

Three of four layers mix tokens with Gated DeltaNet (a fixed-size recurrent state), the fourth with gated
softmax attention (keys and values of every token). Every layer ends in a SwiGLU network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from qanat.checkpoint.config import TextConfig
from qanat.errors import UnsupportedError
from qanat.model.batch import Batch
from qanat.model.ops import AttentionWeights, DeltaWeights, HeadOutput, Ops
from qanat.model.shapes import AttentionShape, DeltaShape

__all__ = ["TextModel", "require_runnable"]

A = TypeVar("A")
PREFIX = "model.language_model."


class Tensor(Protocol):
    """A named tensor of the checkpoint; `array()` maps it without a copy where it can."""

    def array(self) -> NDArray[Any]:
        """The values, read-only."""


@dataclass(frozen=True)
class DeltaLayer(Generic[A]):
    """A linear-attention layer's weights."""

    shape: DeltaShape
    input_norm: A
    in_proj: A  # [qkv | z | b | a] rows: one read of the input feeds them all
    mixer: DeltaWeights[A]
    out_proj: A
    mlp_norm: A
    gate_up: A  # [gate | up] rows
    down: A


@dataclass(frozen=True)
class AttentionLayer(Generic[A]):
    """A full-attention layer's weights."""

    shape: AttentionShape
    input_norm: A
    qkv_proj: A  # [q and gate, head by head | k | v] rows
    mixer: AttentionWeights[A]
    out_proj: A
    mlp_norm: A
    gate_up: A
    down: A


def require_runnable(config: TextConfig) -> None:
    """Raise UnsupportedError for an architecture that can be read but not computed yet."""
    if config.moe is not None:
        raise UnsupportedError(
            f"this checkpoint has mixture-of-experts layers ({config.moe.num_experts} experts): "
            "qanat reads, inspects and tokenizes it, but cannot run such a model yet; use a dense one"
        )


class TextModel(Generic[A]):
    """Qwen3.5's dense text model on one backend.

    Args:
        config: the text part of config.json.
        tensors: canonical name -> tensor, as `qanat.checkpoint.Checkpoint.tensors` holds them.
        ops: the backend.

    Raises:
        UnsupportedError: the checkpoint has mixture-of-experts layers.
    """

    def __init__(self, config: TextConfig, tensors: Mapping[str, Tensor], ops: Ops[A]) -> None:
        require_runnable(config)
        assert config.intermediate_size is not None  # a dense configuration has one: config.py checks
        self.config = config
        self._mlp_splits = [config.intermediate_size] * 2
        self.ops = ops
        self._tensors = tensors
        self.embedding = ops.embedding_weight(self._array("embed_tokens.weight"))
        self.layers = [self._load_layer(i, kind) for i, kind in enumerate(config.layer_types)]
        self.final_norm = self._vector("norm.weight")
        if config.tie_word_embeddings:
            self.lm_head = self.embedding
        else:
            self.lm_head = ops.linear_weight([tensors["lm_head.weight"].array()])
        ops.seal()
        del self._tensors  # the backend holds what it needs; let the mapping go with the checkpoint

    def new_state(self, slots: int, pages: int, page: int) -> Any:
        """State for sequences: `slots` recurrent states, and `pages` pages of `page` tokens each."""
        return self.ops.new_state([layer.shape for layer in self.layers], slots, pages, page)

    def forward(self, batch: Batch, state: Any) -> HeadOutput[A]:
        """Run the batch's new tokens through all layers; updates `state`.

        Returns:
            The final-norm hidden rows [M, H] and raw float32 logits [M, V] of `batch.output_rows`, which may
            be overwritten by the next step.
        """
        return self.ops.run(self._forward, batch, state)

    def _forward(self, batch: Batch, state: Any) -> HeadOutput[A]:
        eps = self.config.rms_norm_eps
        x = self.ops.embed(self.embedding, batch.tokens)  # [N, H]
        for i, layer in enumerate(self.layers):
            mixed = self._mix(x, layer, batch, state, i)
            x = self.ops.linear_residual(mixed, layer.out_proj, x)
            gate, up = self.ops.norm_linear(x, layer.mlp_norm, eps, layer.gate_up, self._mlp_splits)
            x = self.ops.linear_residual(self.ops.swiglu(gate, up), layer.down, x)
        return self.ops.head(x, batch.output_rows, self.final_norm, eps, self.lm_head)

    def _mix(self, x: A, layer: DeltaLayer[A] | AttentionLayer[A], batch: Batch, state: Any, i: int) -> A:
        """The token mixer of layer i: the only place where rows of a sequence see one another."""
        eps = self.config.rms_norm_eps
        if isinstance(layer, DeltaLayer):
            d = layer.shape
            splits = [d.conv_dim, d.vd, d.value_heads, d.value_heads]
            qkv, z, b, a = self.ops.norm_linear(x, layer.input_norm, eps, layer.in_proj, splits)
            return self.ops.gated_delta(qkv, z, b, a, layer.mixer, d, batch, state, i)
        s = layer.shape
        splits = [2 * s.heads * s.head_dim, s.kv_heads * s.head_dim, s.kv_heads * s.head_dim]
        qg, k, v = self.ops.norm_linear(x, layer.input_norm, eps, layer.qkv_proj, splits)
        return self.ops.gated_attention(qg, k, v, layer.mixer, s, batch, state, i)

    # -- loading -------------------------------------------------------------------------------------

    def _array(self, name: str) -> NDArray[Any]:
        return self._tensors[PREFIX + name].array()

    def _vector(self, name: str) -> A:
        return self.ops.vector(self._array(name))

    def _linear(self, *names: str) -> A:
        return self.ops.linear_weight([self._array(name) for name in names])

    def _load_layer(self, i: int, kind: str) -> DeltaLayer[A] | AttentionLayer[A]:
        at = f"layers.{i}."
        input_norm = self._vector(at + "input_layernorm.weight")
        mlp_norm = self._vector(at + "post_attention_layernorm.weight")
        gate_up = self._linear(at + "mlp.gate_proj.weight", at + "mlp.up_proj.weight")
        down = self._linear(at + "mlp.down_proj.weight")
        if kind == "linear_attention":
            at += "linear_attn."
            return DeltaLayer(
                shape=self._delta_shape(),
                input_norm=input_norm,
                in_proj=self._linear(*(f"{at}in_proj_{part}.weight" for part in ("qkv", "z", "b", "a"))),
                mixer=DeltaWeights(
                    conv=self.ops.vector(np.squeeze(self._array(at + "conv1d.weight"), 1)),
                    a_log=self._vector(at + "A_log"),
                    dt_bias=self._vector(at + "dt_bias"),
                    norm=self._vector(at + "norm.weight"),
                ),
                out_proj=self._linear(at + "out_proj.weight"),
                mlp_norm=mlp_norm,
                gate_up=gate_up,
                down=down,
            )
        at += "self_attn."
        return AttentionLayer(
            shape=self._attention_shape(),
            input_norm=input_norm,
            qkv_proj=self._linear(*(f"{at}{part}_proj.weight" for part in "qkv")),
            mixer=AttentionWeights(
                q_norm=self._vector(at + "q_norm.weight"), k_norm=self._vector(at + "k_norm.weight")
            ),
            out_proj=self._linear(at + "o_proj.weight"),
            mlp_norm=mlp_norm,
            gate_up=gate_up,
            down=down,
        )

    def _delta_shape(self) -> DeltaShape:
        c = self.config
        return DeltaShape(
            key_heads=c.linear_num_key_heads,
            value_heads=c.linear_num_value_heads,
            key_dim=c.linear_key_head_dim,
            value_dim=c.linear_value_head_dim,
            conv_kernel=c.linear_conv_kernel_dim,
            eps=c.rms_norm_eps,
        )

    def _attention_shape(self) -> AttentionShape:
        c = self.config
        return AttentionShape(
            heads=c.num_attention_heads,
            kv_heads=c.num_key_value_heads,
            head_dim=c.head_dim,
            rotary_dim=c.rotary_dim,
            rope_theta=c.rope_theta,
            mrope_section=c.mrope_section,
            eps=c.rms_norm_eps,
        )
