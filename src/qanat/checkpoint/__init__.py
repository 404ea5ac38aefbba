"""A model folder or hub id becomes a `ModelConfig` and named tensors.

Knows: files, bytes, dtypes, names, the hub's cache. Must not know: the mathematics of the model, text,
tokens, devices, or who asks.
"""

from __future__ import annotations

from qanat.checkpoint.config import ModelConfig, MoEConfig, TextConfig, VisionConfig
from qanat.checkpoint.hub import pull
from qanat.checkpoint.hub_cache import CachedModel, cached_models, remove_cached
from qanat.checkpoint.load import Checkpoint, load_checkpoint
from qanat.checkpoint.names import expected_tensors
from qanat.checkpoint.resolve import BUILT_IN, resolve_model
from qanat.checkpoint.tensor_view import TensorView

__all__ = [
    "BUILT_IN",
    "CachedModel",
    "Checkpoint",
    "MoEConfig",
    "ModelConfig",
    "TensorView",
    "TextConfig",
    "VisionConfig",
    "cached_models",
    "expected_tensors",
    "load_checkpoint",
    "pull",
    "remove_cached",
    "resolve_model",
]
