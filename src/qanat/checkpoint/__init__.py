"""A model folder or hub id becomes a `ModelConfig` and named tensors.

Knows: files, bytes, dtypes, names, the hub's cache. Must not know: the mathematics of the model, text,
tokens, devices, or who asks.
"""

from __future__ import annotations

from qanat.checkpoint.config import ModelConfig, MoEConfig, TextConfig, VisionConfig

__all__ = ["MoEConfig", "ModelConfig", "TextConfig", "VisionConfig"]
