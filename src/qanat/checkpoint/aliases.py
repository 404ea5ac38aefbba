"""Other writers' tensor names, brought back to the published ones.

The published prefixes are `model.language_model.`, `model.visual.`, `mtp.` and `lm_head.`. transformers
saves a text-only model under `model.`; MLX puts everything under `language_model.`; older vision saves
have no `model.`.
"""

from __future__ import annotations

import re

from qanat.checkpoint.names import MTP, TEXT, VISION

__all__ = ["canonical_name", "is_harmless"]

# Tried in order; the first that matches replaces its prefix.
_PREFIXES = (
    (TEXT, TEXT),
    (VISION, VISION),
    ("model.mtp.", MTP),
    ("language_model.mtp.", MTP),
    ("language_model.model.", TEXT),
    ("language_model.lm_head.", "lm_head."),
    ("visual.", VISION),
    ("model.embed_tokens.", TEXT + "embed_tokens."),
    ("model.layers.", TEXT + "layers."),
    ("model.norm.", TEXT + "norm."),
)

# Tables some writers save although they follow from the configuration.
_DERIVED = re.compile(r"(^|\.)(rotary_emb|rotary_pos_emb)\.(original_)?inv_freq$")


def canonical_name(name: str) -> str:
    """Give the published name of a tensor; an unknown name is returned as it is."""
    for prefix, published in _PREFIXES:
        if name.startswith(prefix):
            return published + name[len(prefix) :]
    return name


def is_harmless(name: str) -> bool:
    """Whether a tensor that no table expects may be left aside: rotary frequencies, which we compute."""
    return _DERIVED.search(name) is not None
