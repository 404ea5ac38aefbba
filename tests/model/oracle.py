"""A second, independent implementation of docs/model.md: float64, whole sequences, the chunked delta rule.

It shares no code with qanat and takes the other road wherever there are two (chunks instead of tokens,
one score matrix instead of pages), so that an error has to be made twice to stay unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
CHUNK = 64


def logits(config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], tokens: NDArray[np.int32]) -> F64:
    """Float64 logits [T, V] of one sequence."""
    w = {k.removeprefix("model.language_model."): np.asarray(v, np.float64) for k, v in tensors.items()}
    eps = config["rms_norm_eps"]
    x = w["embed_tokens.weight"][tokens]
    for i, kind in enumerate(config["layer_types"]):
        layer = {k.removeprefix(f"layers.{i}."): v for k, v in w.items() if k.startswith(f"layers.{i}.")}
        h = _rms(x, eps) * (1 + layer["input_layernorm.weight"])
        x = x + (_delta if kind == "linear_attention" else _attention)(h, layer, config)
        h = _rms(x, eps) * (1 + layer["post_attention_layernorm.weight"])
        up = h @ layer["mlp.up_proj.weight"].T
        x = x + (_silu(h @ layer["mlp.gate_proj.weight"].T) * up) @ layer["mlp.down_proj.weight"].T
    x = _rms(x, eps) * (1 + w["norm.weight"])
    return x @ (w["embed_tokens.weight"] if config["tie_word_embeddings"] else w["lm_head.weight"]).T


def _rms(x: F64, eps: float) -> F64:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def _silu(x: F64) -> F64:
    return x / (1 + np.exp(-x))


def _attention(h: F64, w: Mapping[str, F64], c: Mapping[str, Any]) -> F64:
    t, nh, nkv, hd = len(h), c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    eps, rope = c["rms_norm_eps"], c["rope_parameters"]
    qg = (h @ w["self_attn.q_proj.weight"].T).reshape(t, nh, 2, hd)
    q = _rms(qg[:, :, 0], eps) * (1 + w["self_attn.q_norm.weight"])
    k = (h @ w["self_attn.k_proj.weight"].T).reshape(t, nkv, hd)
    k = _rms(k, eps) * (1 + w["self_attn.k_norm.weight"])
    v = (h @ w["self_attn.v_proj.weight"].T).reshape(t, nkv, hd)
    rot = int(hd * rope["partial_rotary_factor"])
    turn = np.exp(
        1j * np.arange(t)[:, None] * rope["rope_theta"] ** (-2 * np.arange(rot // 2) / rot)
    )  # a rotation is a complex product

    def rotated(y: F64) -> F64:
        z = (y[..., : rot // 2] + 1j * y[..., rot // 2 : rot]) * turn[:, None]
        return np.concatenate([z.real, z.imag, y[..., rot:]], -1)

    k, v = (np.repeat(y, nh // nkv, 1) for y in (rotated(k), v))
    scores = np.einsum("thd,shd->hts", rotated(q), k) / np.sqrt(hd)
    scores[:, np.triu(np.ones((t, t), bool), 1)] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    o = np.einsum("hts,shd->thd", p / p.sum(-1, keepdims=True), v)
    gated = o / (1 + np.exp(-qg[:, :, 1]))
    return gated.reshape(t, nh * hd) @ w["self_attn.o_proj.weight"].T


def _delta(h: F64, w: Mapping[str, F64], c: Mapping[str, Any]) -> F64:
    w = {k.removeprefix("linear_attn."): v for k, v in w.items()}
    t, hk, hv = len(h), c["linear_num_key_heads"], c["linear_num_value_heads"]
    dk, dv, kernel = c["linear_key_head_dim"], c["linear_value_head_dim"], c["linear_conv_kernel_dim"]
    u = np.pad(h @ w["in_proj_qkv.weight"].T, ((kernel - 1, 0), (0, 0)))
    y = _silu(sum(u[m : m + t] * w["conv1d.weight"][:, 0, m] for m in range(kernel)))
    q, k, v = np.split(y, [hk * dk, 2 * hk * dk], 1)
    q, k = (z.reshape(t, hk, dk) for z in (q, k))
    q, k = (z / np.sqrt((z * z).sum(-1, keepdims=True) + 1e-6) for z in (q, k))
    v = v.reshape(t, hv, dv)
    beta = 1 / (1 + np.exp(-(h @ w["in_proj_b.weight"].T)))
    g = -np.exp(w["A_log"]) * np.log1p(np.exp(h @ w["in_proj_a.weight"].T + w["dt_bias"]))
    o = np.empty_like(v)
    for head in range(hv):
        j = head // (hv // hk)
        o[:, head] = _chunked(q[:, j] / np.sqrt(dk), k[:, j], v[:, head], g[:, head], beta[:, head])
    z = (h @ w["in_proj_z.weight"].T).reshape(t, hv, dv)
    n = _rms(o, c["rms_norm_eps"]) * w["norm.weight"] * _silu(z)
    return n.reshape(t, hv * dv) @ w["out_proj.weight"].T


def _chunked(q: F64, k: F64, v: F64, g: F64, beta: F64) -> F64:
    """One head of the delta rule in chunks of 64 (the WY form of docs/model.md, section 5)."""
    S = np.zeros((k.shape[1], v.shape[1]))
    out = []
    for at in range(0, len(q), CHUNK):
        Q, K, V, b = (x[at : at + CHUNK] for x in (q, k, v, beta))
        G = np.cumsum(g[at : at + CHUNK])
        n = len(Q)
        D = np.exp(np.where(np.tril(np.ones((n, n), bool)), G[:, None] - G[None, :], -np.inf))
        A = np.tril(b[:, None] * (K @ K.T) * D, -1)
        U, W = np.split(
            np.linalg.solve(np.eye(n) + A, np.concatenate([b[:, None] * V, (b * np.exp(G))[:, None] * K], 1)),
            [V.shape[1]],
            axis=1,
        )
        fresh = U - W @ S
        out.append(np.exp(G)[:, None] * (Q @ S) + (Q @ K.T * D) @ fresh)
        S = np.exp(G[-1]) * S + (np.exp(G[-1] - G)[:, None] * K).T @ fresh
    return np.concatenate(out)
