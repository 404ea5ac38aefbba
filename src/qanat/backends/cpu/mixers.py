"""The gated-attention mixer: shapes, batches and states become the kernel's arguments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.kernels import attention as attention_kernels
from qanat.backends.cpu.state import AttentionState
from qanat.backends.cpu.workspace import Workspace
from qanat.model.batch import Batch
from qanat.model.ops import AttentionWeights
from qanat.model.shapes import AttentionShape

__all__ = ["AttentionColumns", "gated_attention"]

F32 = NDArray[np.float32]
SERIAL_ROWS = 4
"""Rows whose norms and rotations cost less than opening a parallel region."""


@dataclass(frozen=True)
class AttentionColumns:
    """First columns of (query, gate) head by head, of the keys and of the values in the joint output."""

    q: int
    k: int
    v: int


def gated_attention(
    joint: F32,
    columns: AttentionColumns,
    w: AttentionWeights[F32],
    cos: F32,
    sin: F32,
    shape: AttentionShape,
    batch: Batch,
    state: AttentionState,
    work: Workspace,
    threads: int,
) -> F32:
    """The whole gated-attention mixer for a ragged batch.

    Args:
        joint: [N, stride] float32, contiguous.
        w: the norms' factors themselves, 1 + w.
        cos, sin: [N, rotary_dim / 2] of the rotary angles.
        state: keys and values are added to its pages.
        threads: how many shares the work is cut into; no result depends on it.

    Returns:
        [N, nh * head_dim], gated, ready for the output projection.
    """
    sizes = np.array(
        [
            shape.heads,
            shape.kv_heads,
            shape.head_dim,
            shape.rotary_dim,
            joint.shape[1],
            columns.q,
            columns.k,
            columns.v,
        ],
        np.int64,
    )
    out = np.empty((len(joint), shape.heads * shape.head_dim), np.float32)
    plan, size, shared = attention_kernels.plan_attention(sizes, batch.starts, batch.cache_len, threads)
    args = (
        joint.reshape(-1),
        sizes,
        np.float32(shape.eps),
        w.q_norm,
        w.k_norm,
        cos.reshape(-1),
        sin.reshape(-1),
        batch.starts,
        batch.cache_len,
        batch.page_table,
        state.keys.reshape(-1),
        state.values.reshape(-1),
        plan,
        work.floats(size),
        out.reshape(-1),
    )
    prepare, attend, merge = attention_kernels.PREPARE, attention_kernels.ATTEND, attention_kernels.MERGE
    if threads == 1 or len(joint) <= SERIAL_ROWS:
        attention_kernels.gated_attention(*args, prepare, 0, 1)
    else:
        attention_kernels.gated_attention_threads(*args, prepare, threads)
    if threads == 1:
        attention_kernels.gated_attention(*args, attend, 0, 1)
    else:
        attention_kernels.gated_attention_threads(*args, attend, threads)
    if shared:
        attention_kernels.gated_attention_threads(*args, merge, threads)
    return out
