"""What a step has for itself, beside its tape: its batch, and how the mixers share the work of this batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qanat.backends.common.rotary import rotary_angles
from qanat.backends.cpu.kernels.attention import plan_attention
from qanat.backends.cpu.kernels.delta import plan_delta
from qanat.backends.cpu.workspace import Workspace
from qanat.model.batch import Batch
from qanat.model.shapes import AttentionShape, DeltaShape

__all__ = ["AttentionLayout", "DeltaLayout", "Step", "forked_sources", "prepare_plan"]

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]


@dataclass(frozen=True)
class DeltaLayout:
    """What all gated-delta layers of a model have in common: shape, and where the parts of the joint output
    [N, stride] begin: qkv, z, b, a."""

    shape: DeltaShape
    stride: int
    columns: tuple[int, int, int, int]

    @cached_property
    def sizes(self) -> I64:
        """The first part of what the kernel calls `sizes`."""
        s = self.shape
        numbers = s.key_heads, s.value_heads, s.key_dim, s.value_dim, s.conv_kernel, self.stride
        return np.array([*numbers, *self.columns], np.int64)


@dataclass(frozen=True)
class AttentionLayout:
    """The same of the gated-attention layers: (query, gate) head by head, keys, values."""

    shape: AttentionShape
    stride: int
    columns: tuple[int, int, int]

    @cached_property
    def sizes(self) -> I64:
        """What the kernel calls `sizes`."""
        s = self.shape
        return np.array([s.heads, s.kv_heads, s.head_dim, s.rotary_dim, self.stride, *self.columns], np.int64)


NO_I32, NO_I64, NO_F32 = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.float32)
NO_PAGES, NO_PLAN = np.empty((0, 0), np.int32), np.empty((0, 8), np.int64)
FALSE = np.zeros(2, np.int64)


class Step(NamedTuple):
    """Arguments of the kernels that run a tape, in their order. All arrays are contiguous, and empty where no
    instruction looks."""

    tokens: I32 = NO_I32  # [N]
    output_rows: I32 = NO_I32  # [M]
    starts: I32 = NO_I32  # [B + 1]
    cache_len: I32 = NO_I32  # [B]
    pages: I32 = NO_PAGES  # [B, P]
    cos: F32 = NO_F32  # [N * rotary_dim / 2]
    sin: F32 = NO_F32
    attention_sizes: I64 = NO_I64
    plan: I64 = NO_PLAN  # of attention, [groups + 1, 8]
    delta_sizes: I64 = NO_I64  # slots included
    flags: I64 = FALSE  # [the delta rule takes one phase, attention merges parts]
    work: F32 = NO_F32  # scratch of the mixers

    @classmethod
    def of(
        cls,
        batch: Batch,
        delta: DeltaLayout | None,
        attention: AttentionLayout | None,
        work: Workspace,
        threads: int,
    ) -> Step:
        """Plan a batch for `threads` threads; no result depends on their number."""
        flags, floats = np.zeros(2, np.int64), 0
        delta_sizes, sizes, plan, cos, sin = NO_I64, NO_I64, NO_PLAN, NO_F32, NO_F32
        if delta is not None:
            source = forked_sources(batch)
            src = batch.src_slot
            if source is not None:
                src = np.where(src < 0, src, np.arange(batch.size, dtype=np.int32))
            delta_sizes = np.concatenate([delta.sizes, [batch.size], batch.starts, src, batch.dst_slot])
            flags[0], floats = plan_delta(delta_sizes, threads)
        if attention is not None:
            sizes = attention.sizes
            plan, needed, flags[1] = plan_attention(sizes, batch.starts, batch.cache_len, threads)
            floats = max(floats, needed)
            angles = rotary_angles(batch.rope_positions, attention.shape).reshape(-1)
            cos, sin = np.cos(angles), np.sin(angles)
        return cls(
            batch.tokens, batch.output_rows, batch.starts, batch.cache_len, batch.page_table, cos, sin,
            sizes, plan, delta_sizes, flags, work.floats(floats),
        )  # fmt: skip


def prepare_plan(shape: DeltaShape | AttentionShape) -> None:
    """Have the planning kernel of a kind of layer at hand: loaded, or compiled the first time."""
    none = np.zeros(1, np.int32)
    starts, positions = np.array([0, 1], np.int32), np.zeros((3, 1), np.int32)
    batch = Batch(none, starts, none, positions, none[:, None], none, none, none[:0])
    if isinstance(shape, DeltaShape):
        Step.of(batch, DeltaLayout(shape, 1, (0, 0, 0, 0)), None, Workspace(), 1)
    else:
        Step.of(batch, None, AttentionLayout(shape, 1, (0, 0, 0)), Workspace(), 1)


def forked_sources(batch: Batch) -> I32 | None:
    """The slots to copy, sequence by sequence, before a layer writes any; None where no sequence reads a slot
    that another writes."""
    if batch.size == 1 or np.array_equal(batch.src_slot, batch.dst_slot):
        return None
    written = {slot: i for i, slot in enumerate(batch.dst_slot.tolist())}
    if all(written.get(slot, i) == i for i, slot in enumerate(batch.src_slot.tolist())):
        return None
    sources: I32 = np.maximum(batch.src_slot, 0)
    return sources
