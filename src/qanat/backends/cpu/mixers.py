"""The mixers of both kinds of layer: shapes, batches and states become the kernels' arguments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.kernels import attention as attention_kernels
from qanat.backends.cpu.kernels import delta as delta_kernels
from qanat.backends.cpu.state import AttentionState, DeltaState
from qanat.backends.cpu.workspace import Workspace
from qanat.model.batch import Batch
from qanat.model.ops import AttentionWeights, DeltaWeights
from qanat.model.shapes import AttentionShape, DeltaShape

__all__ = ["AttentionColumns", "DeltaColumns", "gated_attention", "gated_delta"]

F32 = NDArray[np.float32]
SERIAL_ROWS = 4
"""Rows whose norms and rotations cost less than opening a parallel region."""


@dataclass(frozen=True)
class DeltaColumns:
    """Where the parts lie in the joint output [N, stride] of one linear layer: their first columns."""

    qkv: int
    z: int
    b: int
    a: int


def gated_delta(
    joint: F32,
    columns: DeltaColumns,
    w: DeltaWeights[F32],
    shape: DeltaShape,
    batch: Batch,
    state: DeltaState,
    work: Workspace,
    threads: int,
) -> F32:
    """The whole gated-delta mixer for a ragged batch.

    Args:
        joint: [N, stride] float32, contiguous.
        w: as in `Ops`, but `conv` is transposed, [Kc, conv_dim].
        state: updated at dst_slot.
        threads: how many shares the work is cut into; no result depends on it.

    Returns:
        [N, vd], gated and normed, ready for the output projection.
    """
    sizes = np.array(
        [
            shape.key_heads,
            shape.value_heads,
            shape.key_dim,
            shape.value_dim,
            shape.conv_kernel,
            joint.shape[1],
            columns.qkv,
            columns.z,
            columns.b,
            columns.a,
        ],
        np.int64,
    )
    src, old, before = batch.src_slot, state.conv_window, state.recurrent
    if _reads_what_another_writes(batch):
        taken = np.maximum(src, 0)
        old, before = old[taken], before[taken]  # copies, made before anything is written
        src = np.where(src < 0, src, np.arange(batch.size, dtype=np.int32))
    out = np.empty((len(joint), shape.vd), np.float32)
    one_region, size = delta_kernels.plan_delta(sizes, batch.starts, threads)
    args = (
        joint.reshape(-1),
        sizes,
        np.float32(shape.eps),
        w.conv.reshape(-1),
        w.a_log,
        w.dt_bias,
        w.norm,
        batch.starts,
        src,
        batch.dst_slot,
        old.reshape(-1),
        before.reshape(-1),
        state.conv_window.reshape(-1),
        state.recurrent.reshape(-1),
        work.floats(size),
        out.reshape(-1),
    )
    if threads == 1:
        delta_kernels.gated_delta(*args, delta_kernels.EVERYTHING, 0, 1)
    elif one_region:
        delta_kernels.gated_delta_threads(*args, delta_kernels.EVERYTHING, threads)
    else:
        for phase in (delta_kernels.PREPARE, delta_kernels.RECUR, delta_kernels.NORM):
            delta_kernels.gated_delta_threads(*args, phase, threads)
    return out


def _reads_what_another_writes(batch: Batch) -> bool:
    if batch.size == 1 or np.array_equal(batch.src_slot, batch.dst_slot):
        return False
    written = {slot: i for i, slot in enumerate(batch.dst_slot.tolist())}
    return any(written.get(slot, i) != i for i, slot in enumerate(batch.src_slot.tolist()))


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
