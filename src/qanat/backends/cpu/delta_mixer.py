"""The gated-delta mixer: weights, shapes, batches and states become the kernel's arguments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu.kernels import delta as kernels
from qanat.backends.cpu.state import DeltaState
from qanat.backends.cpu.workspace import Workspace
from qanat.model.batch import Batch
from qanat.model.ops import DeltaWeights
from qanat.model.shapes import DeltaShape

__all__ = ["DeltaMixer", "delta_constants"]

F32 = NDArray[np.float32]
PHASES = kernels.PREPARE, kernels.RECUR, kernels.NORM


def delta_constants(w: DeltaWeights[F32]) -> F32:
    """A layer's weights as one array: taps [Kc, conv_dim], a_log [Hv], dt_bias [Hv], norm [dv]."""
    return np.concatenate([w.conv.T.reshape(-1), w.a_log, w.dt_bias, w.norm])


@dataclass(frozen=True)
class _Plan:
    """What all layers of one shape share in one step."""

    batch: Batch
    shape: DeltaShape
    columns: tuple[int, ...]
    sizes: NDArray[np.int64]
    sources: NDArray[np.int32] | None  # slots to copy before anything is written, sequence by sequence
    one_region: bool
    work: int  # float32 elements


class DeltaMixer:
    """The whole mixer for ragged batches.

    Args:
        work: memory for one call at a time.
        threads: how many shares the work is cut into; no result depends on it.
    """

    def __init__(self, work: Workspace, threads: int) -> None:
        self._work, self._threads = work, threads
        self._plan: _Plan | None = None

    def __call__(
        self,
        joint: F32,
        columns: tuple[int, int, int, int],
        constants: F32,
        shape: DeltaShape,
        batch: Batch,
        state: DeltaState,
    ) -> F32:
        """One layer.

        Args:
            joint: [N, stride] float32, contiguous.
            columns: where qkv, z, b and a begin in it.
            constants: as `delta_constants` gives them.
            state: updated at dst_slot.

        Returns:
            [N, vd], gated and normed, ready for the output projection.
        """
        plan = self._plan_of(batch, shape, (joint.shape[1], *columns))
        old, before = state.conv_window, state.recurrent
        if plan.sources is not None:
            old, before = old[plan.sources], before[plan.sources]
        out = np.empty((len(joint), shape.vd), np.float32)
        args = (
            joint.reshape(-1),
            plan.sizes,
            np.float32(shape.eps),
            constants,
            old.reshape(-1),
            before.reshape(-1),
            state.conv_window.reshape(-1),
            state.recurrent.reshape(-1),
            self._work.floats(plan.work),
            out.reshape(-1),
        )
        if self._threads == 1:
            kernels.gated_delta(*args, kernels.EVERYTHING, 0, 1)
        elif plan.one_region:
            kernels.gated_delta_threads(*args, kernels.EVERYTHING, self._threads)
        else:
            for phase in PHASES:
                kernels.gated_delta_threads(*args, phase, self._threads)
        return out

    def _plan_of(self, batch: Batch, shape: DeltaShape, columns: tuple[int, ...]) -> _Plan:
        plan = self._plan
        if plan is None or plan.batch is not batch or plan.columns != columns or plan.shape != shape:
            plan = self._plan = _planned(batch, shape, columns, self._threads)
        return plan


def _planned(batch: Batch, shape: DeltaShape, columns: tuple[int, ...], threads: int) -> _Plan:
    src, sources = batch.src_slot, None
    if _reads_what_another_writes(batch):
        sources = np.maximum(src, 0)
        src = np.where(src < 0, src, np.arange(batch.size, dtype=np.int32))
    heads = shape.key_heads, shape.value_heads, shape.key_dim, shape.value_dim, shape.conv_kernel
    numbers = [*heads, *columns, batch.size]
    sizes = np.concatenate([np.array(numbers, np.int64), batch.starts, src, batch.dst_slot])
    one_region, work = kernels.plan_delta(sizes, threads)
    return _Plan(batch, shape, columns, sizes, sources, one_region, work)


def _reads_what_another_writes(batch: Batch) -> bool:
    if batch.size == 1 or np.array_equal(batch.src_slot, batch.dst_slot):
        return False
    written = {slot: i for i, slot in enumerate(batch.dst_slot.tolist())}
    return any(written.get(slot, i) != i for i, slot in enumerate(batch.src_slot.tolist()))
