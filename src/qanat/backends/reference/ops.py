"""`ReferenceOps`: the protocol `Ops` in NumPy float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.backends.reference import attention, delta
from qanat.backends.reference.elementwise import F32, rms_norm, silu
from qanat.backends.reference.linear import Linear, to_float32
from qanat.backends.reference.sampling import sample
from qanat.backends.reference.state import AttentionState, DeltaState, State
from qanat.model.batch import Batch
from qanat.model.ops import AttentionWeights, DeltaWeights, HeadOutput
from qanat.model.sampling import Choice, SamplingRow
from qanat.model.shapes import AttentionShape, DeltaShape

__all__ = ["ReferenceOps"]

ONE = np.float32(1)


class ReferenceOps:
    """NumPy float32; weights held as "f32" (the stored values) or "bf16" (rounded, half the memory)."""

    def __init__(self, weights: str = "f32") -> None:
        if weights not in ("f32", "bf16"):
            raise ValueError(f"weights must be 'f32' or 'bf16', not {weights!r}")
        self.weights = weights

    def vector(self, values: NDArray[Any]) -> F32:
        """A small tensor as float32."""
        return to_float32(values)

    def linear_weight(self, parts: Sequence[NDArray[Any]]) -> Linear:
        """A linear layer of concatenated rows."""
        return Linear(parts, bfloat16=self.weights == "bf16")

    def embedding_weight(self, table: NDArray[Any]) -> Linear:
        """An embedding table, which also serves as the head when the two are tied."""
        return Linear([table], bfloat16=self.weights == "bf16")

    def seal(self) -> None:
        """Nothing is kept on disk."""

    def new_state(
        self, layers: Sequence[DeltaShape | AttentionShape], slots: int, pages: int, page: int
    ) -> State:
        """Zeroed state for every layer."""
        return State(
            [
                DeltaState.zeros(shape, slots)
                if isinstance(shape, DeltaShape)
                else AttentionState.zeros(shape, pages, page)
                for shape in layers
            ],
            page,
        )

    def copy_pages(self, state: State, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy whole pages of keys and values."""
        state.copy_pages(sources, targets)

    def run(
        self, forward: Callable[[Batch, Any], HeadOutput[F32]], batch: Batch, state: Any
    ) -> HeadOutput[F32]:
        """One step, operation by operation."""
        return forward(batch, state)

    def embed(self, table: Linear, tokens: NDArray[np.int32]) -> F32:
        """Rows of the table [N, H]."""
        return table.rows(tokens)

    def norm_linear(self, x: F32, norm: F32, eps: float, weight: Linear, splits: Sequence[int]) -> list[F32]:
        """rms_norm with 1 + w, one product, cut into contiguous column blocks."""
        y = weight(rms_norm(x, ONE + norm, eps))
        return [np.ascontiguousarray(part) for part in np.split(y, np.cumsum(splits)[:-1], axis=1)]

    def gated_delta(
        self,
        qkv: F32,
        z: F32,
        b: F32,
        a: F32,
        w: DeltaWeights[F32],
        shape: DeltaShape,
        batch: Batch,
        state: State,
        layer: int,
    ) -> F32:
        """See `qanat.backends.reference.delta`."""
        own = state.layers[layer]
        assert isinstance(own, DeltaState)
        return delta.gated_delta(qkv, z, b, a, w, shape, batch, own)

    def gated_attention(
        self,
        qg: F32,
        k: F32,
        v: F32,
        w: AttentionWeights[F32],
        shape: AttentionShape,
        batch: Batch,
        state: State,
        layer: int,
    ) -> F32:
        """See `qanat.backends.reference.attention`."""
        own = state.layers[layer]
        assert isinstance(own, AttentionState)
        plus_one = AttentionWeights(ONE + w.q_norm, ONE + w.k_norm)
        return attention.gated_attention(qg, k, v, plus_one, shape, batch, own)

    def linear_residual(self, x: F32, weight: Linear, residual: F32) -> F32:
        """residual + x W^T."""
        return residual + weight(x)

    def swiglu(self, gate: F32, up: F32) -> F32:
        """silu(gate) * up."""
        return silu(gate) * up

    def head(self, x: F32, rows: NDArray[np.int32], norm: F32, eps: float, weight: Linear) -> HeadOutput[F32]:
        """Final norm and logits of the wanted rows."""
        hidden = rms_norm(x[rows], ONE + norm, eps)
        return HeadOutput(hidden, weight(hidden))

    def sample(self, logits: F32, rows: Sequence[SamplingRow], live_vocab: int) -> list[Choice]:
        """See `qanat.backends.reference.sampling`."""
        return sample(logits, rows, live_vocab)

    def to_numpy(self, x: F32) -> F32:
        """A copy."""
        return np.array(x, dtype=np.float32)
