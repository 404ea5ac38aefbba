"""The layer for multi-token prediction: from a token's final row and the next token to the token after that.

Slot i takes the trunk's row of token i behind the final norm (what the head sees) and the embedding of token
i + 1; one full-attention layer and the trunk's head predict token i + 2. Names and order are the published
ones (docs/design.md). The float32 graph here trains it and says how often its first draft is right.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import torch

from .data import Batch
from .graph import (
    AddRmsNorm,
    CrossEntropy,
    RmsNorm,
    Weights,
    decoder_layer,
    embedded,
    final_rows,
    learnt_places,
    logits_of,
)
from .shape import HIDDEN, INTERMEDIATE, text_config

LAYER = "mtp.layers.0"


def fresh_mtp(seed: int) -> dict[str, torch.nn.Parameter]:
    """New weights in float32 by their published names; matrices keep the size of what they are given."""
    config = text_config()
    dim = config["head_dim"]
    queries, keys = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    shapes: dict[str, tuple[int, ...]] = {
        "mtp.fc": (HIDDEN, 2 * HIDDEN),
        "mtp.pre_fc_norm_embedding": (HIDDEN,),
        "mtp.pre_fc_norm_hidden": (HIDDEN,),
        f"{LAYER}.input_layernorm": (HIDDEN,),
        f"{LAYER}.self_attn.q_proj": (2 * queries, HIDDEN),
        f"{LAYER}.self_attn.k_proj": (keys, HIDDEN),
        f"{LAYER}.self_attn.v_proj": (keys, HIDDEN),
        f"{LAYER}.self_attn.o_proj": (HIDDEN, queries),
        f"{LAYER}.self_attn.q_norm": (dim,),
        f"{LAYER}.self_attn.k_norm": (dim,),
        f"{LAYER}.post_attention_layernorm": (HIDDEN,),
        f"{LAYER}.mlp.gate_proj": (INTERMEDIATE, HIDDEN),
        f"{LAYER}.mlp.up_proj": (INTERMEDIATE, HIDDEN),
        f"{LAYER}.mlp.down_proj": (HIDDEN, INTERMEDIATE),
        "mtp.norm": (HIDDEN,),
    }
    generator = torch.Generator().manual_seed(seed)
    fresh = {}
    for name, shape in shapes.items():
        value = torch.zeros(shape)  # a norm multiplies by 1 + w
        if len(shape) == 2:
            value.normal_(0, shape[1] ** -0.5, generator=generator)
        fresh[f"{name}.weight"] = torch.nn.Parameter(value)
    return fresh


def draft_rows(trunk: Weights, mtp: Weights, ids: torch.Tensor, final: torch.Tensor) -> torch.Tensor:
    """What the head turns into drafts: slots 0..length-2 of each row, [rows * (length - 1), H].

    Args:
        trunk, mtp: their weights by name.
        ids: [rows, length] int64.
        final: the trunk's rows behind its final norm, [rows * length, H].
    """
    rows, length = ids.shape
    e = RmsNorm.apply(embedded(trunk, ids[:, 1:]), mtp["mtp.pre_fc_norm_embedding.weight"])
    hidden = final.view(rows, length, -1)[:, :-1].reshape(rows * (length - 1), -1)
    h = RmsNorm.apply(hidden, mtp["mtp.pre_fc_norm_hidden.weight"])
    x = torch.nn.functional.linear(torch.cat([e, h], dim=1), mtp["mtp.fc.weight"])
    x, more = decoder_layer(mtp, LAYER, "full_attention", x, torch.zeros_like(x), rows)
    return AddRmsNorm.apply(x, more, mtp["mtp.norm.weight"])[1]


def mtp_loss_of(trunk: Weights, mtp: Weights, batch: Batch) -> tuple[torch.Tensor, int]:
    """Mean cross entropy of the learnt tokens predicted two ahead, and their number; the trunk is fixed."""
    ids = torch.from_numpy(batch.ids)
    with torch.no_grad():
        final = final_rows(trunk, ids)
    places, targets = learnt_places(batch, 2)
    places = places + places // (ids.shape[1] - 2)  # the same with whole rows of slots
    rows = draft_rows(trunk, mtp, ids, final).index_select(0, places)
    return CrossEntropy.apply(logits_of(trunk, rows), targets), len(targets)


@torch.no_grad()
def greedy_reply(
    trunk: Weights, prompt: Sequence[int], ends: Collection[int], live: int, limit: int
) -> list[int]:
    """The trunk's greedy continuation up to an end token (included) or `limit` tokens; ids below `live`."""
    ids = list(prompt)
    while len(ids) < len(prompt) + limit:
        last = final_rows(trunk, torch.tensor([ids]))[-1:]
        ids.append(int(logits_of(trunk, last)[0, :live].argmax()))
        if ids[-1] in ends:
            break
    return ids[len(prompt) :]


@torch.no_grad()
def first_draft_acceptance(
    trunk: Weights, mtp: Weights, prompt: Sequence[int], ends: Collection[int], live: int, limit: int = 200
) -> tuple[int, int]:
    """How many first drafts are right in the trunk's own greedy reply to a rendered prompt, and of how many.

    The first token of a reply has no draft: the layer needs it to begin with.
    """
    reply = greedy_reply(trunk, prompt, ends, live, limit)
    ids = torch.tensor([[*prompt, *reply]])
    rows = draft_rows(trunk, mtp, ids, final_rows(trunk, ids))[len(prompt) - 1 : -1]
    drafts = logits_of(trunk, rows)[:, :live].argmax(1).tolist()
    return sum(draft == token for draft, token in zip(drafts, reply[1:], strict=True)), len(drafts)


def published_weights(folder: Path) -> tuple[Weights, Weights]:
    """(trunk, MTP) in float32 from an exported folder, by the names that the graph wants."""
    from safetensors.torch import load_file

    tensors = {
        name.replace("model.language_model.", "model.", 1): tensor.float()
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    mtp = {name: tensor for name, tensor in tensors.items() if name.startswith("mtp.")}
    return {name: tensor for name, tensor in tensors.items() if name not in mtp}, mtp
