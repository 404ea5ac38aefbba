"""What a sequence remembers on the CPU, in the layouts its kernels stream through.

All arrays are allocated as zeros: the operating system gives memory only to slots and pages that are touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.model.shapes import AttentionShape, DeltaShape

__all__ = ["BLOCK", "KV_DTYPES", "PAGE", "AttentionState", "CpuState", "DeltaState"]

PAGE = 64
"""Tokens in a page, and in a block of the online softmax."""
BLOCK = 32
"""Columns of the recurrent matrix that are kept together: with 128 rows, 16 KB, half of an L1 cache."""
LANES = 16
LINE = 64
"""Bytes of a cache line."""
KV_DTYPES: dict[str, Any] = {"bf16": np.uint16, "f32": np.float32}
"""How keys and values may be stored. bfloat16 is held as its bits."""


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def _aligned_zeros(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Zeros from the beginning of a cache line: no vector of a row lies in two."""
    memory = np.zeros(4 * prod(shape) + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + 4 * prod(shape)].view(np.float32).reshape(shape)


@dataclass(frozen=True)
class DeltaState:
    """State of one linear-attention layer, by slot."""

    conv_window: NDArray[np.float32]  # [slots, Kc-1, conv_dim], the last raw projections, oldest first
    recurrent: NDArray[np.float32]  # [slots, Hv, dv / BLOCK rounded up, dk, BLOCK], padded with zeros

    @staticmethod
    def zeros(shape: DeltaShape, slots: int) -> DeltaState:
        """Zeroed state."""
        blocks = _up(shape.value_dim, BLOCK) // BLOCK
        return DeltaState(
            _aligned_zeros((slots, shape.conv_kernel - 1, shape.conv_dim)),
            _aligned_zeros((slots, shape.value_heads, blocks, shape.key_dim, BLOCK)),
        )

    def matrix(self, slot: int, value_dim: int) -> NDArray[np.float32]:
        """The recurrent matrices of a slot as [Hv, dk, dv], a copy."""
        heads, blocks, dk, _ = self.recurrent.shape[1:]
        whole = self.recurrent[slot].transpose(0, 2, 1, 3).reshape(heads, dk, blocks * BLOCK)
        return np.ascontiguousarray(whole[..., :value_dim])


@dataclass(frozen=True)
class AttentionState:
    """Keys and values of one full-attention layer, by page and kv head: panels of sixteen lanes.

    A key panel holds sixteen positions, dim after dim; a value panel sixteen dims, position after position.
    So scores and weighted sums are one product: a panel's rows, one after the other, each times a number.
    """

    keys: NDArray[Any]  # [pages, nkv, PAGE / 16, head_dim, 16], rotated; float32, or bfloat16 bits as uint16
    values: NDArray[Any]  # [pages, nkv, head_dim / 16 rounded up, PAGE, 16]

    @staticmethod
    def zeros(shape: AttentionShape, pages: int, dtype: str) -> AttentionState:
        """Zeroed pages; `dtype` is a key of KV_DTYPES."""
        kind, panels = KV_DTYPES[dtype], _up(shape.head_dim, LANES) // LANES
        return AttentionState(
            np.zeros((pages, shape.kv_heads, PAGE // LANES, shape.head_dim, LANES), kind),
            np.zeros((pages, shape.kv_heads, panels, PAGE, LANES), kind),
        )


@dataclass(frozen=True)
class CpuState:
    """All layers' state."""

    layers: list[DeltaState | AttentionState]

    @staticmethod
    def zeros(
        layers: Sequence[DeltaShape | AttentionShape], slots: int, pages: int, page: int, kv: str
    ) -> CpuState:
        """Zeroed state for every layer.

        Raises:
            ValueError: `page` is not PAGE, or `kv` is no key of KV_DTYPES.
        """
        if page != PAGE:
            raise ValueError(f"the CPU kernels have pages of {PAGE} tokens, not {page}")
        if kv not in KV_DTYPES:
            raise ValueError(f"kv must be one of {', '.join(KV_DTYPES)}, not {kv!r}")
        return CpuState(
            [
                DeltaState.zeros(shape, slots)
                if isinstance(shape, DeltaShape)
                else AttentionState.zeros(shape, pages, kv)
                for shape in layers
            ]
        )

    def copy_pages(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy whole pages of keys and values, in every layer."""
        for layer in self.layers:
            if isinstance(layer, AttentionState):
                layer.keys[targets] = layer.keys[sources]
                layer.values[targets] = layer.values[sources]
