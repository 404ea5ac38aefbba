"""`Ops`: the dozen operations a backend must provide. Arrays are opaque to the model.

A backend is free in layout, precision and fusion, but each row's result may depend only on that row's
sequence: never on its neighbours in the batch, on how a prompt was cut into chunks, or on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from qanat.model.batch import Batch
from qanat.model.sampling import Choice, SamplingRow
from qanat.model.shapes import AttentionShape, DeltaShape

__all__ = ["AttentionWeights", "DeltaWeights", "HeadOutput", "Ops"]

A = TypeVar("A")
"""A backend's array (activations, packed weights)."""


@dataclass(frozen=True)
class DeltaWeights(Generic[A]):
    """The small tensors of a gated-delta mixer (docs/model.md, "Gated DeltaNet")."""

    conv: A  # [conv_dim, Kc] depthwise taps, tap Kc-1 multiplies the current token
    a_log: A  # [Hv]
    dt_bias: A  # [Hv]
    norm: A  # [dv], plain w


@dataclass(frozen=True)
class AttentionWeights(Generic[A]):
    """The small tensors of a gated-attention mixer (docs/model.md, "Gated attention")."""

    q_norm: A  # [head_dim], used as 1 + w
    k_norm: A  # [head_dim], used as 1 + w


@dataclass(frozen=True)
class HeadOutput(Generic[A]):
    """What the head returns for the M rows of `Batch.output_rows`."""

    hidden: A  # [M, H], after the final norm (multi-token prediction reads it)
    logits: A  # [M, V], float32, raw


class Ops(Protocol[A]):
    """What a backend provides. N rows, H hidden size; weights are [out, in], never biased."""

    def vector(self, values: NDArray[Any]) -> A:
        """Take a small tensor (norm weight, gate bias, conv taps) in as float32."""

    def linear_weight(self, parts: Sequence[NDArray[Any]]) -> A:
        """Pack the row-wise concatenation of `parts`, each [out_i, in], for `linear`-like operations."""

    def embedding_weight(self, table: NDArray[Any]) -> A:
        """Pack an embedding table [V, H]. When it is tied, the head is given the same object."""

    def seal(self) -> None:
        """All weights have been given: a backend that keeps packed weights on disk finishes them here."""

    def new_state(
        self, layers: Sequence[DeltaShape | AttentionShape], slots: int, pages: int, page: int
    ) -> Any:
        """Allocate the sequences' state, one entry a layer: `slots` conv windows and recurrent matrices
        for linear attention, `pages` pages of `page` tokens of keys and values for full attention."""

    def copy_pages(self, state: Any, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy whole pages of keys and values, in every layer, to pages that are none of the sources."""

    def run(self, forward: Callable[[Batch, Any], HeadOutput[A]], batch: Batch, state: Any) -> HeadOutput[A]:
        """Compute one step: what `forward`, which calls the operations below, says.

        A backend may note the operations once, for batches of one form, and repeat them from then on. What
        is returned may lie in memory that the next step uses again.
        """

    def embed(self, table: A, tokens: NDArray[np.int32]) -> A:
        """Rows [N, H] of the embedding table."""

    def norm_linear(self, x: A, norm: A, eps: float, weight: A, splits: Sequence[int]) -> list[A]:
        """RMSNorm with (1 + w), then one packed linear whose output is cut into `splits` columns."""

    def gated_delta(
        self,
        qkv: A,
        z: A,
        b: A,
        a: A,
        w: DeltaWeights[A],
        shape: DeltaShape,
        batch: Batch,
        state: Any,
        layer: int,
    ) -> A:
        """Conv, gates, delta rule and gated norm of one linear-attention layer -> [N, vd]; updates state."""

    def gated_attention(
        self,
        qg: A,
        k: A,
        v: A,
        w: AttentionWeights[A],
        shape: AttentionShape,
        batch: Batch,
        state: Any,
        layer: int,
    ) -> A:
        """q/k norm, rotary, causal attention over the pages and the output gate -> [N, nh*head_dim]."""

    def linear_residual(self, x: A, weight: A, residual: A) -> A:
        """residual + x @ weight^T."""

    def swiglu(self, gate: A, up: A) -> A:
        """silu(gate) * up."""

    def head(self, x: A, rows: NDArray[np.int32], norm: A, eps: float, weight: A) -> HeadOutput[A]:
        """Final norm of the wanted rows, and their logits."""

    def sample(self, logits: A, rows: Sequence[SamplingRow], live_vocab: int) -> list[Choice]:
        """Choose a token for each row of logits [M, V]; ids >= live_vocab are dead rows, never chosen."""

    def to_numpy(self, x: A) -> NDArray[np.float32]:
        """A float32 copy on the host."""
