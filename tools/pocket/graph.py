"""The miniature's forward and backward for training: transformers' parameters, our own graph.

`loss_of` computes what `Qwen3_5ForCausalLM` would (a test compares value and gradients) in half the time:
projections of the same input are one matrix product, what lies between matrix products is one kernel, and
rows padded on the right need no mask because nothing looks ahead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.functional import linear, scaled_dot_product_attention

from . import kernels
from .data import Batch
from .shape import text_config

CONFIG = text_config()
Weights = dict[str, torch.Tensor]


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().contiguous().numpy()


class RmsNorm(torch.autograd.Function):
    """rms_norm(x) * (1 + w) over the last dimension; x [n, width]."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        kernels.rms_norm_forward(_array(x), _array(w), y.numpy())
        ctx.save_for_backward(x, w)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        x, w = ctx.saved_tensors
        dx, dw = torch.zeros_like(x), torch.zeros_like(w)
        kernels.rms_norm_backward(_array(dy), _array(x), _array(w), dx.numpy(), dx.numpy(), dw.numpy())
        return dx, dw


class AddRmsNorm(torch.autograd.Function):
    """(x + more, rms_norm(x + more) * (1 + w)); x and more [n, width]."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, more: torch.Tensor, w: torch.Tensor) -> Any:
        both, y = torch.empty_like(x), torch.empty_like(x)
        kernels.add_rms_norm_forward(_array(x), _array(more), _array(w), both.numpy(), y.numpy())
        ctx.save_for_backward(both, w)
        return both, y

    @staticmethod
    def backward(ctx: Any, dboth: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        x, w = ctx.saved_tensors
        dx, dw = torch.empty_like(x), torch.zeros_like(w)
        kernels.rms_norm_backward(_array(dy), _array(x), _array(w), _array(dboth), dx.numpy(), dw.numpy())
        return dx, dx, dw


class SwiGlu(torch.autograd.Function):
    """silu(gate) * up of [n, 2 * width]."""

    @staticmethod
    def forward(ctx: Any, gate_up: torch.Tensor) -> torch.Tensor:
        h = gate_up.new_empty(gate_up.shape[0], gate_up.shape[1] // 2)
        kernels.swiglu_forward(_array(gate_up), h.numpy())
        ctx.save_for_backward(gate_up)
        return h

    @staticmethod
    def backward(ctx: Any, dh: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        (gate_up,) = ctx.saved_tensors
        out = torch.empty_like(gate_up)
        kernels.swiglu_backward(_array(dh), _array(gate_up), out.numpy())
        return out


class DeltaMixer(torch.autograd.Function):
    """Convolution, gates, delta rule and gated norm; p [rows, length, WIDTH] -> [rows, length, INNER]."""

    @staticmethod
    def forward(
        ctx: Any,
        p: torch.Tensor,
        taps: torch.Tensor,
        A_log: torch.Tensor,
        dt_bias: torch.Tensor,
        w: torch.Tensor,
    ) -> torch.Tensor:
        rows, length, _ = p.shape
        o = p.new_empty(rows, length, kernels.INNER)
        chunks = -(-length // kernels.CHUNK)
        states = p.new_empty(rows, chunks, kernels.HEADS, kernels.DIM, kernels.DIM)
        fixed = [_array(t) for t in (p, taps, A_log, dt_bias, w)]
        kernels.delta_mixer_forward(*fixed, o.numpy(), states.numpy())
        ctx.save_for_backward(p, taps, A_log, dt_bias, w, states)
        return o

    @staticmethod
    def backward(ctx: Any, do: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        p, taps, A_log, dt_bias, w, _ = ctx.saved_tensors
        grads = [torch.empty_like(p), *(torch.zeros_like(t) for t in (taps, A_log, dt_bias, w))]
        kernels.delta_mixer_backward(
            _array(do), *(_array(t) for t in ctx.saved_tensors), *(g.numpy() for g in grads)
        )
        return tuple(grads)


class CrossEntropy(torch.autograd.Function):
    """Mean cross entropy of logits [n, V] against wanted [n]."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        dlogits = torch.empty_like(logits)
        loss = kernels.cross_entropy(_array(logits), _array(wanted), dlogits.numpy())
        ctx.save_for_backward(dlogits)
        return logits.new_tensor(loss)

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> Any:  # type: ignore[override]
        (dlogits,) = ctx.saved_tensors
        return dlogits * dloss, None


def rotary(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines [length, rotated dims / 2] of text positions, where all three axes agree."""
    rope = CONFIG["rope_parameters"]
    dims = int(CONFIG["head_dim"] * rope["partial_rotary_factor"])
    frequencies = 1.0 / rope["rope_theta"] ** (torch.arange(0, dims, 2).float() / dims)
    angles = torch.arange(length).float()[:, None] * frequencies
    return angles.cos(), angles.sin()


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the first dims of x [rows, length, heads, head_dim] and bring heads before length."""
    half = cos.shape[-1]
    a, b, rest = x.split([half, half, x.shape[-1] - 2 * half], dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1).transpose(1, 2)


def delta_layer(weights: Weights, at: str, x: torch.Tensor, rows: int) -> torch.Tensor:
    """The linear-attention mixer on normed tokens x [rows * length, H]."""
    names = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")
    w = torch.cat([weights[f"{at}.{name}.weight"] for name in names])
    p = linear(x, w).view(rows, -1, kernels.WIDTH)
    o = DeltaMixer.apply(
        p,
        weights[f"{at}.conv1d.weight"].squeeze(1).t(),
        weights[f"{at}.A_log"],
        weights[f"{at}.dt_bias"],
        weights[f"{at}.norm.weight"],
    )
    return linear(o.view(x.shape[0], -1), weights[f"{at}.out_proj.weight"])


def attention_layer(weights: Weights, at: str, x: torch.Tensor, rows: int) -> torch.Tensor:
    """The gated full-attention mixer on normed tokens x [rows * length, H]."""
    heads, groups, dim = (CONFIG[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    w = torch.cat([weights[f"{at}.{name}.weight"] for name in ("q_proj", "k_proj", "v_proj")])
    p = linear(x, w)
    query_gate, key, value = p.split([2 * heads * dim, groups * dim, groups * dim], dim=1)
    query, gate = query_gate.reshape(-1, heads, 2, dim).unbind(2)
    length = x.shape[0] // rows
    cos, sin = rotary(length)
    query = RmsNorm.apply(query.reshape(-1, dim), weights[f"{at}.q_norm.weight"])
    key = RmsNorm.apply(key.reshape(-1, dim), weights[f"{at}.k_norm.weight"])
    mixed = scaled_dot_product_attention(
        rotated(query.view(rows, length, heads, dim), cos, sin),
        rotated(key.view(rows, length, groups, dim), cos, sin),
        value.view(rows, length, groups, dim).transpose(1, 2),
        is_causal=True,
        enable_gqa=True,
    )
    mixed = mixed.transpose(1, 2).reshape(-1, heads, dim) * gate.sigmoid()
    return linear(mixed.view(x.shape[0], -1), weights[f"{at}.o_proj.weight"])


def mlp(weights: Weights, at: str, x: torch.Tensor) -> torch.Tensor:
    """The SwiGLU block on normed tokens."""
    w = torch.cat([weights[f"{at}.gate_proj.weight"], weights[f"{at}.up_proj.weight"]])
    return linear(SwiGlu.apply(linear(x, w)), weights[f"{at}.down_proj.weight"])


def decoder_layer(
    weights: Weights, at: str, kind: str, x: torch.Tensor, more: torch.Tensor, rows: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """One layer on the residual stream x + more (each [rows * length, H]), returned in the same form."""
    mixer, name = (attention_layer, "self_attn") if kind == "full_attention" else (delta_layer, "linear_attn")
    x, normed = AddRmsNorm.apply(x, more, weights[f"{at}.input_layernorm.weight"])
    more = mixer(weights, f"{at}.{name}", normed, rows)
    x, normed = AddRmsNorm.apply(x, more, weights[f"{at}.post_attention_layernorm.weight"])
    return x, mlp(weights, f"{at}.mlp", normed)


def embedded(weights: Weights, ids: torch.Tensor) -> torch.Tensor:
    """Embedding rows of ids [rows, length] int64: [rows * length, H]."""
    return torch.nn.functional.embedding(ids.flatten(), weights["model.embed_tokens.weight"])


def stream(weights: Weights, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The residual stream behind the last layer, as two summands, each [rows * length, H]."""
    x = embedded(weights, ids)
    more = torch.zeros_like(x)
    for i, kind in enumerate(CONFIG["layer_types"]):
        x, more = decoder_layer(weights, f"model.layers.{i}", kind, x, more, ids.shape[0])
    return x, more


def final_rows(weights: Weights, ids: torch.Tensor) -> torch.Tensor:
    """What the head sees, [rows * length, H]: the stream behind the final norm."""
    return AddRmsNorm.apply(*stream(weights, ids), weights["model.norm.weight"])[1]


def logits_of(weights: Weights, rows: torch.Tensor) -> torch.Tensor:
    """The head, which is the embedding, on [n, H]: [n, V]."""
    return linear(rows, weights["model.embed_tokens.weight"])


def learnt_places(batch: Batch, ahead: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Where a learnt token stands `ahead` tokens further on, and which.

    Returns (flat places in [rows, length - ahead], the token ids there), both [n] int64.
    """
    wanted = batch.learnt[:, ahead:]
    return torch.from_numpy(np.flatnonzero(wanted)), torch.from_numpy(batch.ids[:, ahead:][wanted])


def loss_of(weights: Weights, batch: Batch) -> tuple[torch.Tensor, int]:
    """Mean cross entropy of the learnt tokens, and their number; logits are computed only for them."""
    x, more = stream(weights, torch.from_numpy(batch.ids))
    places, targets = learnt_places(batch, 1)
    places = places + places // (batch.ids.shape[1] - 1)  # the same with whole rows
    hidden = RmsNorm.apply(
        x.index_select(0, places) + more.index_select(0, places), weights["model.norm.weight"]
    )
    return CrossEntropy.apply(logits_of(weights, hidden), targets), len(targets)
