"""`CpuOps`: the protocol `Ops` on Numba kernels.

An array of activations is float32 [N, width], contiguous; the residual stream is filled up with zero columns
to a multiple of 64, the width that the linear kernels write. `norm_linear` hands out `Part`s: columns of one
joint output, which the mixers and SwiGLU read where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu import linear, mixers
from qanat.backends.cpu.delta_mixer import DeltaMixer, delta_constants
from qanat.backends.cpu.kernels.norm import rms_norm, swiglu
from qanat.backends.cpu.pack_cache import PackCache
from qanat.backends.cpu.packing import PackedBf16, PackedInt8, pack
from qanat.backends.cpu.sampling import Sampler
from qanat.backends.cpu.state import AttentionState, CpuState, DeltaState
from qanat.backends.cpu.threads import choose_threads, use_threads
from qanat.backends.cpu.workspace import Workspace
from qanat.model.batch import Batch
from qanat.model.ops import AttentionWeights, DeltaWeights, HeadOutput
from qanat.model.sampling import Choice, SamplingRow
from qanat.model.shapes import AttentionShape, DeltaShape

__all__ = ["CpuOps", "Part"]

F32 = NDArray[np.float32]
ONE = np.float32(1)
KEY_VALUE = {"int8": "bf16", "bf16": "f32"}
"""How keys and values are kept, by the mode of the weights: bf16 is the mode that compares with float32."""


@dataclass(frozen=True)
class Part:
    """Columns start .. start + width - 1 of a joint output [N, stride]."""

    joint: F32
    start: int
    width: int


Array = F32 | Part


class CpuOps:
    """Numba kernels; weights "int8" (activations too, keys and values bfloat16) or "bf16" (all else float32).

    Args:
        weights: "int8" or "bf16".
        threads: how many compute; None: the physical cores.
        pack: where packed weights are kept between runs; None: nowhere.
    """

    def __init__(self, weights: str, *, threads: int | None = None, pack: PackCache | None = None) -> None:
        self.weights = weights
        self.threads = choose_threads(threads)
        use_threads(self.threads)
        self._cache = pack
        self._work = Workspace()
        self._sampler = Sampler()
        self._delta = DeltaMixer(self._work, self.threads)
        self._quantised: dict[int, linear.Quantised] = {}
        self._derived: dict[int, tuple[Any, Any]] = {}
        self._step: mixers.AttentionStep | None = None

    # -- weights and state -----------------------------------------------------------------------------

    def vector(self, values: NDArray[Any]) -> F32:
        """A small tensor as float32."""
        return np.array(values, dtype=np.float32)

    def linear_weight(self, parts: Sequence[NDArray[Any]]) -> PackedInt8 | PackedBf16:
        """Pack the concatenation of `parts`, or find it packed."""
        shape = (sum(len(part) for part in parts), parts[0].shape[1])
        if self._cache is None:
            return pack(parts, self.weights, self.threads)
        arrays = self._cache.arrays(shape, lambda: pack(parts, self.weights, self.threads).arrays())
        if self.weights == "int8":
            return PackedInt8(*shape, arrays["data"], arrays["scales"])
        return PackedBf16(*shape, arrays["data"])

    def embedding_weight(self, table: NDArray[Any]) -> PackedInt8 | PackedBf16:
        """An embedding table, which also serves as the head when the two are tied."""
        return self.linear_weight([table])

    def seal(self) -> None:
        """Keep what was packed."""
        if self._cache is not None:
            self._cache.seal()

    def new_state(
        self, layers: Sequence[DeltaShape | AttentionShape], slots: int, pages: int, page: int
    ) -> CpuState:
        """Zeroed state for every layer."""
        return CpuState.zeros(layers, slots, pages, page, KEY_VALUE[self.weights])

    # -- operations ------------------------------------------------------------------------------------

    def embed(self, table: PackedInt8 | PackedBf16, tokens: NDArray[np.int32]) -> F32:
        """Rows of the table, filled up."""
        rows = table.rows(tokens)
        padded = -(-rows.shape[1] // 64) * 64
        if padded == rows.shape[1]:
            return rows
        x = np.zeros((len(rows), padded), np.float32)
        x[:, : rows.shape[1]] = rows
        return x

    def norm_linear(
        self, x: F32, norm: F32, eps: float, weight: PackedInt8 | PackedBf16, splits: Sequence[int]
    ) -> list[Array]:
        """rms_norm with 1 + w, one product, as columns of one array."""
        joint = self._norm_multiply(x, self._gain(norm), eps, weight)
        starts = np.cumsum([0, *splits[:-1]]).tolist()
        return [Part(joint, start, width) for start, width in zip(starts, splits, strict=True)]

    def gated_delta(
        self,
        qkv: Part,
        z: Part,
        b: Part,
        a: Part,
        w: DeltaWeights[F32],
        shape: DeltaShape,
        batch: Batch,
        state: CpuState,
        layer: int,
    ) -> F32:
        """See `qanat.backends.cpu.delta_mixer`."""
        own = state.layers[layer]
        assert isinstance(own, DeltaState)
        columns = qkv.start, z.start, b.start, a.start
        constants = self._once(w, lambda: delta_constants(w))
        return self._delta(qkv.joint, columns, constants, shape, batch, own)

    def gated_attention(
        self,
        qg: Part,
        k: Part,
        v: Part,
        w: AttentionWeights[F32],
        shape: AttentionShape,
        batch: Batch,
        state: CpuState,
        layer: int,
    ) -> F32:
        """See `qanat.backends.cpu.mixers`."""
        own = state.layers[layer]
        assert isinstance(own, AttentionState)
        columns = mixers.AttentionColumns(qg.start, k.start, v.start)
        weights = self._once(w, lambda: AttentionWeights(ONE + w.q_norm, ONE + w.k_norm))
        stride = qg.joint.shape[1]
        step = self._step
        if step is None or not step.fits(shape, columns, stride, batch):
            step = self._step = mixers.AttentionStep.of(shape, columns, stride, batch, self.threads)
        return mixers.gated_attention(qg.joint, weights, step, own, self._work, self.threads)

    def linear_residual(self, x: F32, weight: PackedInt8 | PackedBf16, residual: F32) -> F32:
        """residual + x W^T."""
        out = np.empty_like(residual)
        if isinstance(weight, PackedBf16):
            linear.multiply(x, weight, out, self.threads, residual)
            return out
        quantised = self._room(len(x), weight.in_features)
        linear.quantise(x, quantised, self.threads)
        linear.multiply_quantised(quantised, weight, out, self.threads, residual)
        return out

    def swiglu(self, gate: Part, up: Part) -> F32:
        """silu(gate) * up."""
        joint = gate.joint
        out = np.empty((len(joint), gate.width), np.float32)
        swiglu(joint.reshape(-1), joint.shape[1], up.start, gate.width, out.reshape(-1), self.threads)
        return out

    def head(
        self, x: F32, rows: NDArray[np.int32], norm: F32, eps: float, weight: PackedInt8 | PackedBf16
    ) -> HeadOutput[F32]:
        """Final norm and logits of the wanted rows; columns that fill up lie between rows of logits."""
        hidden = self._normed(x[rows], self._gain(norm), eps)
        if not len(rows):
            return HeadOutput(hidden, np.empty((0, weight.out_features), np.float32))
        logits = np.empty((len(rows), weight.out_padded), np.float32)
        if isinstance(weight, PackedBf16):
            linear.multiply(hidden, weight, logits, self.threads)
        else:
            quantised = self._room(len(rows), weight.in_features)
            linear.quantise(hidden, quantised, self.threads)
            linear.multiply_quantised(quantised, weight, logits, self.threads)
        return HeadOutput(hidden, logits[:, : weight.out_features])

    def sample(self, logits: F32, rows: Sequence[SamplingRow], live_vocab: int) -> list[Choice]:
        """See `qanat.backends.cpu.sampling`."""
        return self._sampler.sample(logits, rows, live_vocab)

    def to_numpy(self, x: Array) -> F32:
        """A copy; of the residual stream without the columns that fill it up."""
        if isinstance(x, Part):
            return x.joint[:, x.start : x.start + x.width].copy()
        return x.copy()

    # -- what they share -------------------------------------------------------------------------------

    def _norm_multiply(self, x: F32, gain: F32, eps: float, weight: PackedInt8 | PackedBf16) -> F32:
        out = np.empty((len(x), weight.out_padded), np.float32)
        if isinstance(weight, PackedBf16):
            linear.multiply(self._normed(x, gain, eps), weight, out, self.threads)
            return out
        quantised = self._room(len(x), weight.in_features)
        linear.quantise(x, quantised, self.threads, norm=gain, eps=eps)
        linear.multiply_quantised(quantised, weight, out, self.threads)
        return out

    def _normed(self, x: F32, gain: F32, eps: float) -> F32:
        narrow = _contiguous(x[:, : len(gain)])
        out = np.empty_like(narrow)
        rms_norm(narrow.reshape(-1), gain, np.float32(eps), out.reshape(-1), self.threads)
        return out

    def _room(self, rows: int, width: int) -> linear.Quantised:
        """A buffer for quantised rows, kept for the next step."""
        room = self._quantised.get(width)
        if room is None or room.capacity < rows:
            room = self._quantised[width] = linear.Quantised.empty(rows, width)
        return room

    def _gain(self, norm: F32) -> F32:
        gain: F32 = self._once(norm, lambda: ONE + norm)
        return gain

    def _once(self, source: Any, derive: Any) -> Any:
        """What `derive` gives for a weight, made once: the source is kept, so that its id stays its own."""
        found = self._derived.get(id(source))
        if found is None:
            found = self._derived[id(source)] = (source, derive())
        return found[1]


def _contiguous(x: F32) -> F32:
    return np.ascontiguousarray(x)
