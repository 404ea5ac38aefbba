"""`CpuOps`: the protocol `Ops` on Numba kernels.

An operation computes nothing by itself: it writes an instruction (`qanat.backends.cpu.tape`). `run` has the
operations of a whole step written once for each form of batch, and from then on only runs the tape. Outside
`run` an operation's instructions run at once.

An array of activations is float32 [N, width], contiguous; the residual stream is filled up with zero columns
to a multiple of 64, the width that the linear kernels write. `norm_linear` hands out `Part`s: columns of one
joint output, which the mixers and SwiGLU read where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.backends.cpu import linear
from qanat.backends.cpu.kernel_cache import forget_kernels
from qanat.backends.cpu.linear import Quantised
from qanat.backends.cpu.pack_cache import PackCache
from qanat.backends.cpu.packing import PackedBf16, PackedInt8, pack
from qanat.backends.cpu.programs import Program, Programs
from qanat.backends.cpu.sampling import Sampler
from qanat.backends.cpu.state import AttentionState, CpuState, DeltaState
from qanat.backends.cpu.step import AttentionLayout, DeltaLayout, Step, forked_sources, prepare_plan
from qanat.backends.cpu.tape import Operation, Runner, Tape
from qanat.backends.cpu.threads import choose_threads
from qanat.backends.cpu.workspace import Workspace
from qanat.errors import NumericalError
from qanat.model.batch import Batch
from qanat.model.ops import AttentionWeights, DeltaWeights, HeadOutput
from qanat.model.sampling import Choice, SamplingRow
from qanat.model.shapes import AttentionShape, DeltaShape

__all__ = ["CpuOps", "Part"]

F32 = NDArray[np.float32]
Weight = PackedInt8 | PackedBf16
ONE = np.float32(1)
KEY_VALUE = {"int8": "bf16", "bf16": "f32"}
"""How keys and values are kept, by the mode of the weights: bf16 is the mode that compares with float32."""


@dataclass(frozen=True)
class Part:
    """Columns start .. start + width - 1 of a joint output [N, stride]."""

    joint: F32
    start: int
    width: int


Array = F32 | Part | Quantised


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
        self._cache = pack
        self._runner = Runner(weights, self.threads)
        self._sampler = Sampler()
        self._work = Workspace()
        self._programs = Programs()
        self._program: Program | None = None  # that is being written
        self._derived: dict[int, tuple[Any, Any]] = {}

    # -- weights and state -----------------------------------------------------------------------------

    def vector(self, values: NDArray[Any]) -> F32:
        """A small tensor as float32."""
        return np.array(values, dtype=np.float32)

    def linear_weight(self, parts: Sequence[NDArray[Any]]) -> Weight:
        """Pack the concatenation of `parts`, or find it packed."""
        shape = (sum(len(part) for part in parts), parts[0].shape[1])
        if self._cache is None:
            return pack(parts, self.weights, self.threads)
        arrays = self._cache.arrays(shape, lambda: pack(parts, self.weights, self.threads).arrays())
        if self.weights == "int8":
            return PackedInt8(*shape, arrays["data"], arrays["scales"])
        return PackedBf16(*shape, arrays["data"])

    def embedding_weight(self, table: NDArray[Any]) -> Weight:
        """An embedding table, which also serves as the head when the two are tied."""
        return self.linear_weight([table])

    def seal(self) -> None:
        """Keep what was packed, and have the kernels at hand: loaded, or compiled the first time."""
        if self._cache is not None:
            self._cache.seal()
        try:
            self._load_kernels()
        except Exception as error:  # whatever reading a damaged file of compiled code raises
            _raise_interrupt_behind(error)
            forget_kernels()
            self._load_kernels()

    def new_state(
        self, layers: Sequence[DeltaShape | AttentionShape], slots: int, pages: int, page: int
    ) -> CpuState:
        """Zeroed state for every layer."""
        for shape in dict.fromkeys(layers):
            prepare_plan(shape)
        return CpuState.zeros(layers, slots, pages, page, KEY_VALUE[self.weights])

    def copy_pages(self, state: CpuState, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy whole pages of keys and values."""
        state.copy_pages(sources, targets)

    def _load_kernels(self) -> None:
        self._runner.run(Tape(), Step())
        self._sampler.sample(np.zeros((1, 1), np.float32), [SamplingRow()], 1)

    # -- a step ----------------------------------------------------------------------------------------

    def run(
        self, forward: Callable[[Batch, Any], HeadOutput[Any]], batch: Batch, state: CpuState
    ) -> HeadOutput[F32]:
        """One step; what it returns lies in memory that the next step uses again.

        A batch in which a sequence reads what another writes gets a program of its own, which reads copies.
        """
        form = None if forked_sources(batch) is not None else (len(batch.tokens), len(batch.output_rows))
        program = self._programs.find(state, form)
        if program is None:
            self._program = program = self._programs.new()
            try:
                program.output = forward(batch, state)
            finally:
                self._program = None
            self._programs.keep(form, program)
        if program.table is not None:
            program.table.check_rows(batch.tokens)
        self._execute(program, batch)
        output: HeadOutput[F32] = program.output
        return output

    def _write(self) -> Program:
        """Where the next instructions belong: the step's program, or one for this operation alone."""
        return self._program or Program({})

    def _done(self, program: Program, batch: Batch | None = None) -> None:
        """An operation has written its instructions."""
        if program is not self._program:
            self._execute(program, batch)

    def _execute(self, program: Program, batch: Batch | None) -> None:
        step = Step()
        if batch is not None:
            threads = self._runner.pool(program.tape).threads
            step = Step.of(batch, program.delta, program.attention, self._work, threads)
        self._runner.run(program.tape, step)

    # -- operations ------------------------------------------------------------------------------------

    def embed(self, table: Weight, tokens: NDArray[np.int32]) -> F32:
        """Rows of the table, filled up. IndexError if a token is not in it."""
        if self._program is not None:
            self._program.table = table
            return self._embedded(self._program, table, len(tokens))
        program = Program({})
        out = self._embedded(program, table, len(tokens))
        table.check_rows(tokens)
        self._runner.run(program.tape, Step(tokens=np.ascontiguousarray(tokens, np.int32)))
        return out

    def norm_linear(
        self, x: F32, norm: F32, eps: float, weight: Weight, splits: Sequence[int]
    ) -> list[Array]:
        """rms_norm with 1 + w, one product, as columns of one array."""
        program = self._write()
        gain, rows = self._gain(norm), len(x)
        joint = program.room("joint", rows, weight.out_padded)
        if isinstance(weight, PackedBf16):
            normed = program.room("normed", rows, len(gain))
            program.tape.add(
                Operation.NORM, x, x.shape[1], rows, False, gain, np.float32(eps), normed
            )  # fmt: skip
            linear.multiply(program.tape, normed, weight, joint)
        else:
            quantised = program.quantised(rows, weight.in_features)
            linear.quantise(program.tape, x, quantised, gain=gain, eps=eps)
            linear.multiply_quantised(program.tape, quantised, weight, joint)
        self._done(program)
        starts = accumulate(splits, initial=0)
        return [Part(joint, start, width) for start, width in zip(starts, splits, strict=False)]

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
        """See `kernels.delta`."""
        own, program = state.layers[layer], self._write()
        assert isinstance(own, DeltaState)
        columns = qkv.start, z.start, b.start, a.start
        program.layout_delta(DeltaLayout(shape, qkv.joint.shape[1], columns))
        old, before = own.conv_window, own.recurrent
        sources = forked_sources(batch)
        if sources is not None:
            old, before = old[sources], before[sources]  # before anything is written
        out = program.room("mixed", len(qkv.joint), shape.vd)
        program.tape.add(
            Operation.DELTA, qkv.joint, np.float32(shape.eps), self._delta_constants(w), old, before,
            own.conv_window, own.recurrent, out,
        )  # fmt: skip
        self._done(program, batch)
        return out

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
        """See `kernels.attention`."""
        own, program = state.layers[layer], self._write()
        assert isinstance(own, AttentionState)
        program.layout_attention(AttentionLayout(shape, qg.joint.shape[1], (qg.start, k.start, v.start)))
        out = program.room("mixed", len(qg.joint), shape.heads * shape.head_dim)
        program.tape.add(
            Operation.ATTENTION, qg.joint, np.float32(shape.eps), self._gain(w.q_norm), self._gain(w.k_norm),
            own.keys, own.values, out,
        )  # fmt: skip
        self._done(program, batch)
        return out

    def linear_residual(self, x: F32 | Quantised, weight: Weight, residual: F32) -> F32:
        """residual + x W^T."""
        program = self._write()
        out = program.stream_beside(residual)
        if isinstance(weight, PackedBf16):
            assert not isinstance(x, Quantised)
            linear.multiply(program.tape, x, weight, out, residual)
        else:
            if not isinstance(x, Quantised):
                rows = program.quantised(len(x), weight.in_features)
                linear.quantise(program.tape, x, rows)
                x = rows
            linear.multiply_quantised(program.tape, x, weight, out, residual)
        self._done(program)
        return out

    def swiglu(self, gate: Part, up: Part) -> F32 | Quantised:
        """silu(gate) * up; with int8 weights quantised at once, for the product that follows."""
        program, joint = self._write(), gate.joint
        assert gate.start == 0
        out: F32 | Quantised
        if self.weights == "int8":
            out = program.quantised(len(joint), gate.width)
            linear.swiglu_quantise(program.tape, joint, up.start, out)
        else:
            out = program.room("mixed", len(joint), gate.width)
            program.tape.add(
                Operation.SWIGLU, joint, joint.shape[1], up.start, len(joint), gate.width, out
            )  # fmt: skip
        self._done(program)
        return out

    def head(self, x: F32, rows: NDArray[np.int32], norm: F32, eps: float, weight: Weight) -> HeadOutput[F32]:
        """Final norm and logits of the wanted rows; columns that fill up lie between rows of logits."""
        program, count, gain = self._write(), len(rows), self._gain(norm)
        hidden = program.room("hidden", count, len(gain))
        logits = program.room("logits", count, weight.out_padded)
        if count:
            program.tape.add(
                Operation.NORM, x, x.shape[1], count, True, gain, np.float32(eps), hidden
            )  # fmt: skip
            if isinstance(weight, PackedBf16):
                linear.multiply(program.tape, hidden, weight, logits)
            else:
                quantised = program.quantised(count, weight.in_features)
                linear.quantise(program.tape, hidden, quantised)
                linear.multiply_quantised(program.tape, quantised, weight, logits)
        if self._program is None:
            self._runner.run(program.tape, Step(output_rows=np.ascontiguousarray(rows, np.int32)))
        return HeadOutput(hidden, logits[:, : weight.out_features])

    def sample(self, logits: F32, rows: Sequence[SamplingRow], live_vocab: int) -> list[Choice]:
        """See `qanat.backends.cpu.sampling`."""
        try:
            return self._sampler.sample(logits, rows, live_vocab)
        except NumericalError:
            if self._cache is not None and self._cache.drop_if_damaged():
                raise NumericalError(
                    f"the packed weights in {self._cache.path} were damaged and are deleted now: "
                    "start again, and they are packed anew from the model folder"
                ) from None
            raise

    def to_numpy(self, x: Array) -> F32:
        """A copy, the columns that fill up the residual stream included. Not inside `run`."""
        assert self._program is None, "nothing is computed before the whole step is written"
        if isinstance(x, Part):
            return x.joint[:, x.start : x.start + x.width].copy()
        return x.numbers() if isinstance(x, Quantised) else x.copy()

    # -- what they share -------------------------------------------------------------------------------

    def _embedded(self, program: Program, table: Weight, rows: int) -> F32:
        padded = -(-table.in_features // 64) * 64
        out = program.stream(rows, padded)
        out[:, table.in_features :] = 0
        operands = [*table.arrays().values()]
        inner = table.groups if isinstance(table, PackedInt8) else table.in_padded
        program.tape.add(Operation.EMBED, *operands, inner, table.in_features, out, padded)
        return out

    def _gain(self, norm: F32) -> F32:
        gain: F32 = self._once(norm, lambda: ONE + norm)
        return gain

    def _delta_constants(self, w: DeltaWeights[F32]) -> F32:
        """A layer's weights as one array: taps [Kc, conv_dim], a_log [Hv], dt_bias [Hv], norm [dv]."""
        constants: F32 = self._once(
            w, lambda: np.concatenate([w.conv.T.reshape(-1), w.a_log, w.dt_bias, w.norm])
        )
        return constants

    def _once(self, source: Any, derive: Any) -> Any:
        """What `derive` gives for a weight, made once: the source is kept, so that its id stays its own."""
        found = self._derived.get(id(source))
        if found is None:
            found = self._derived[id(source)] = (source, derive())
        return found[1]


def _raise_interrupt_behind(error: BaseException) -> None:
    """Numba's compiler turns Ctrl-C into errors of its own: raise what was behind them."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        cause = cause.__cause__ or cause.__context__
