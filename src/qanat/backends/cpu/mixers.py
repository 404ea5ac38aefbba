"""The gated-attention mixer: shapes, batches and states become the kernel's arguments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qanat.backends.common.rotary import rotary_angles
from qanat.backends.cpu.kernels import attention as attention_kernels
from qanat.backends.cpu.state import AttentionState
from qanat.backends.cpu.workspace import Workspace
from qanat.model.batch import Batch
from qanat.model.ops import AttentionWeights
from qanat.model.shapes import AttentionShape

__all__ = ["AttentionColumns", "AttentionStep", "gated_attention"]

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class AttentionColumns:
    """First columns of (query, gate) head by head, of the keys and of the values in the joint output."""

    q: int
    k: int
    v: int


@dataclass(frozen=True)
class AttentionStep:
    """What the attention layers of one step have in common: rotary angles, and how the work is cut."""

    shape: AttentionShape
    columns: AttentionColumns
    stride: int  # of the joint output
    batch: Batch
    cos: F32  # of the angles [N, rotary_dim / 2], flat
    sin: F32
    sizes: NDArray[np.int64]
    plan: NDArray[np.int64]
    floats: int  # that the kernel works with
    shared: bool  # whether some threads have parts of one row

    @staticmethod
    def of(
        shape: AttentionShape, columns: AttentionColumns, stride: int, batch: Batch, threads: int
    ) -> AttentionStep:
        """Plan a step for `threads` shares; no result depends on their number."""
        angles = rotary_angles(batch.rope_positions, shape).reshape(-1)
        parts = (shape.heads, shape.kv_heads, shape.head_dim, shape.rotary_dim, stride)
        sizes = np.array([*parts, columns.q, columns.k, columns.v], np.int64)
        plan, floats, shared = attention_kernels.plan_attention(sizes, batch.starts, batch.cache_len, threads)
        cos, sin = np.cos(angles), np.sin(angles)
        return AttentionStep(shape, columns, stride, batch, cos, sin, sizes, plan, floats, shared)

    def fits(self, shape: AttentionShape, columns: AttentionColumns, stride: int, batch: Batch) -> bool:
        """Whether it is the step of this layer and batch."""
        same = batch is self.batch and stride == self.stride
        return same and columns == self.columns and (shape is self.shape or shape == self.shape)


def gated_attention(
    joint: F32,
    w: AttentionWeights[F32],
    step: AttentionStep,
    state: AttentionState,
    work: Workspace,
    threads: int,
) -> F32:
    """The whole gated-attention mixer for a ragged batch.

    Args:
        joint: [N, stride] float32, contiguous.
        w: the norms' factors themselves, 1 + w.
        step: made for this shape, batch and number of threads.
        state: keys and values are added to its pages.
        threads: how many shares the work is cut into; no result depends on it.

    Returns:
        [N, nh * head_dim], gated, ready for the output projection.
    """
    shape, batch = step.shape, step.batch
    out = np.empty((len(joint), shape.heads * shape.head_dim), np.float32)
    args = (
        joint.reshape(-1),
        step.sizes,
        np.float32(shape.eps),
        w.q_norm,
        w.k_norm,
        step.cos,
        step.sin,
        batch.starts,
        batch.cache_len,
        batch.page_table,
        state.keys.reshape(-1),
        state.values.reshape(-1),
        step.plan,
        work.floats(step.floats),
        out.reshape(-1),
    )
    if threads == 1:
        attention_kernels.gated_attention(*args, attention_kernels.EVERYTHING, 0, 1)
    else:
        attention_kernels.gated_attention_threads(*args, step.shared, threads)
    return out
