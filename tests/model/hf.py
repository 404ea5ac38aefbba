"""transformers as the judge: the tiny models in its implementation (needs the parity environment)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

torch.set_num_threads(1)


def build(config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Any:
    """Float32, eager attention, every weight taken from `tensors`."""
    fields = {k: v for k, v in config.items() if k not in ("architectures", "model_type")}
    model = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**fields, attn_implementation="eager")).float().eval()
    state = {
        k.replace("model.language_model.", "model."): torch.from_numpy(np.array(v, np.float32))
        for k, v in tensors.items()
    }
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert set(missing) <= {"lm_head.weight"}, missing
    if config["tie_word_embeddings"]:
        model.lm_head.weight = model.model.embed_tokens.weight
    return model


@torch.no_grad()
def logits(model: Any, tokens: NDArray[np.int32]) -> NDArray[np.float32]:
    """[T, V] of one prefill."""
    return model(torch.from_numpy(tokens.astype(np.int64))[None]).logits[0].numpy()


@torch.no_grad()
def decoded_logits(model: Any, prompt: NDArray[np.int32], rest: NDArray[np.int32]) -> NDArray[np.float32]:
    """[len(rest), V]: a prefill, then the rest one token at a time through the cache."""
    out = model(torch.from_numpy(prompt.astype(np.int64))[None], use_cache=True)
    rows = []
    for token in rest:
        out = model(torch.tensor([[int(token)]]), past_key_values=out.past_key_values, use_cache=True)
        rows.append(out.logits[0, -1].numpy())
    return np.stack(rows)
