"""What a sequence remembers: recurrent state for linear attention, pages of keys and values for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qanat.backends.reference.elementwise import F32
from qanat.model.shapes import AttentionShape, DeltaShape

__all__ = ["AttentionState", "DeltaState", "State"]


@dataclass(frozen=True)
class DeltaState:
    """State of one linear-attention layer, by slot."""

    conv_window: F32  # [slots, Kc-1, conv_dim], the last raw projections, oldest first
    recurrent: F32  # [slots, Hv, dk, dv]

    @staticmethod
    def zeros(shape: DeltaShape, slots: int) -> DeltaState:
        """Zeroed state; the operating system gives memory only to slots that are touched."""
        return DeltaState(
            np.zeros((slots, shape.conv_kernel - 1, shape.conv_dim), np.float32),
            np.zeros((slots, shape.value_heads, shape.key_dim, shape.value_dim), np.float32),
        )


@dataclass(frozen=True)
class AttentionState:
    """Keys and values of one full-attention layer, by page."""

    keys: F32  # [pages, page, nkv, head_dim], rotated
    values: F32  # [pages, page, nkv, head_dim]

    @staticmethod
    def zeros(shape: AttentionShape, pages: int, page: int) -> AttentionState:
        """Zeroed pages; the operating system gives memory only to pages that are touched."""
        size = (pages, page, shape.kv_heads, shape.head_dim)
        return AttentionState(np.zeros(size, np.float32), np.zeros(size, np.float32))


@dataclass(frozen=True)
class State:
    """All layers' state. `page` is the number of tokens in a page."""

    layers: list[DeltaState | AttentionState]
    page: int

    def copy_pages(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy whole pages of keys and values, in every layer."""
        for layer in self.layers:
            if isinstance(layer, AttentionState):
                layer.keys[targets] = layer.keys[sources]
                layer.values[targets] = layer.values[sources]
