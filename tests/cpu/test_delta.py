"""The gated-delta kernel: its twin's bits, the reference's numbers, the same bits however the work is cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from qanat.backends.cpu.state import DeltaState
from qanat.backends.cpu.step import DeltaLayout, Step, forked_sources
from qanat.backends.cpu.tape import Operation
from qanat.backends.cpu.twins import delta as twins
from qanat.backends.cpu.workspace import Workspace
from qanat.backends.reference import delta as reference
from qanat.backends.reference.state import DeltaState as ReferenceState
from qanat.model.batch import FRESH, Batch
from qanat.model.ops import DeltaWeights
from qanat.model.shapes import DeltaShape
from tests.cpu.tapes import on_tape

SHAPES = {
    "square": DeltaShape(2, 2, 32, 32, 4, 1e-6),
    "twice_the_value_heads": DeltaShape(2, 4, 64, 64, 4, 1e-6),
    "wider_values": DeltaShape(1, 2, 16, 128, 4, 1e-6),
    "wider_keys_two_taps": DeltaShape(2, 2, 128, 32, 2, 1e-5),
    "no_multiples_of_sixteen": DeltaShape(2, 6, 8, 24, 4, 1e-6),
    "sixteen": DeltaShape(3, 3, 16, 16, 3, 1e-6),
    "half_a_block": DeltaShape(2, 4, 32, 48, 4, 1e-6),
    "large": DeltaShape(1, 1, 256, 256, 4, 1e-6),
}
SLOTS = 12


@dataclass
class Case:
    """Weights of one layer, and a state of several slots."""

    shape: DeltaShape
    w: DeltaWeights[np.ndarray]
    state: DeltaState

    @staticmethod
    def random(shape: DeltaShape, seed: int = 0) -> Case:
        rng = np.random.default_rng(seed)

        def normal(*size: int) -> np.ndarray:
            return rng.standard_normal(size).astype(np.float32)

        heads = shape.value_heads
        a_log = np.log(rng.uniform(0.1, 16, heads)).astype(np.float32)
        conv = normal(shape.conv_dim, shape.conv_kernel)
        w = DeltaWeights(conv, a_log, normal(heads), 1 + normal(shape.value_dim) / 4)
        return Case(shape, w, DeltaState.zeros(shape, SLOTS))

    def joint(self, rows: int, seed: int = 1, scale: float = 1) -> np.ndarray:
        """[rows, stride] with gaps between the parts, which nobody may read: they are not a number."""
        columns, stride = self.columns()
        rng = np.random.default_rng(seed)
        joint = np.full((rows, stride), np.nan, np.float32)
        for at, n in zip(columns, self.widths(), strict=True):
            joint[:, at : at + n] = scale * rng.standard_normal((rows, n))
        return joint

    def widths(self) -> tuple[int, ...]:
        return self.shape.conv_dim, self.shape.vd, self.shape.value_heads, self.shape.value_heads

    def columns(self) -> tuple[list[int], int]:
        starts, at = [], 3
        for n in self.widths():
            starts.append(at)
            at += n + 5
        return starts, at

    def parts(self, joint: np.ndarray) -> list[np.ndarray]:
        return [joint[:, at : at + n] for at, n in zip(self.columns()[0], self.widths(), strict=True)]

    def run(self, joint: np.ndarray, lengths: list[int], src: list[int], dst: list[int], threads: int = 1):  # type: ignore[no-untyped-def]
        work = Workspace()
        work.floats(1 << 18)[:] = np.nan
        (qkv, z, b, a), stride = self.columns()
        batch = batch_of(lengths, src, dst)
        step = Step.of(batch, DeltaLayout(self.shape, stride, (qkv, z, b, a)), None, work, threads)
        window, matrices = self.state.conv_window, self.state.recurrent
        sources = forked_sources(batch)
        old = (window, matrices) if sources is None else (window[sources], matrices[sources])
        w, eps = self.w, np.float32(self.shape.eps)
        constants = np.concatenate([w.conv.T.reshape(-1), w.a_log, w.dt_bias, w.norm])
        out = np.full((len(joint), self.shape.vd), np.nan, np.float32)
        on_tape(
            "bf16",
            threads,
            lambda tape: tape.add(Operation.DELTA, joint, eps, constants, *old, window, matrices, out),
            step,
        )
        return out

    def left(self, slot: int) -> bytes:
        return self.state.conv_window[slot].tobytes() + self.state.recurrent[slot].tobytes()


def batch_of(lengths: list[int], src: list[int], dst: list[int]) -> Batch:
    n, size = sum(lengths), len(lengths)
    return Batch(
        tokens=np.zeros(n, np.int32),
        starts=np.cumsum([0, *lengths], dtype=np.int32),
        cache_len=np.zeros(size, np.int32),
        rope_positions=np.zeros((3, n), np.int32),
        page_table=np.zeros((size, 1), np.int32),
        src_slot=np.array(src, np.int32),
        dst_slot=np.array(dst, np.int32),
        output_rows=np.zeros(0, np.int32),
    )


def start_of(shape: DeltaShape) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.zeros((shape.conv_kernel - 1, shape.conv_dim), np.float32),
        np.zeros((shape.value_heads, shape.key_dim, shape.value_dim), np.float32),
    )


@pytest.mark.parametrize("name", SHAPES)
def test_twin_and_kernel_have_the_same_bits(name: str) -> None:
    case = Case.random(SHAPES[name])
    joint = case.joint(9)
    out, window, S = twins.gated_delta(*case.parts(joint), case.w, case.shape, *start_of(case.shape))
    assert np.array_equal(case.run(joint, [9], [FRESH], [3]), out)
    assert np.array_equal(case.state.conv_window[3], window)
    assert np.array_equal(case.state.matrix(3, case.shape.value_dim), S)
    joint = case.joint(2, seed=7)
    out, window, S = twins.gated_delta(*case.parts(joint), case.w, case.shape, window, S)
    assert np.array_equal(case.run(joint, [2], [3], [3]), out)
    assert np.array_equal(case.state.conv_window[3], window)
    assert np.array_equal(case.state.matrix(3, case.shape.value_dim), S)


@pytest.mark.parametrize("name", SHAPES)
def test_near_the_reference(name: str) -> None:
    case = Case.random(SHAPES[name])
    lengths, slots = [70, 1, 9], [2, 0, 5]
    joint = case.joint(80)
    other = ReferenceState.zeros(case.shape, SLOTS)
    for src in ([FRESH] * 3, slots):
        out = case.run(joint, lengths, src, slots)
        parts = [np.ascontiguousarray(p) for p in case.parts(joint)]
        batch = batch_of(lengths, src, slots)
        expected = reference.gated_delta(*parts, case.w, case.shape, batch, other)
        assert np.abs(out - expected).max() <= 1e-5 * np.abs(expected).max()
        for slot in slots:
            S, kept = case.state.matrix(slot, case.shape.value_dim), other.recurrent[slot]
            assert np.abs(S - kept).max() <= 1e-5 * np.abs(kept).max()
            assert np.array_equal(case.state.conv_window[slot], other.conv_window[slot])


@pytest.mark.parametrize("name", SHAPES)
def test_pieces_and_threads_leave_the_same_bits(name: str) -> None:
    whole = Case.random(SHAPES[name])
    joint = whole.joint(131)
    expected = whole.run(joint, [131], [FRESH], [0])
    for piece, threads in ((1, 1), (7, 2), (64, 3), (131, 2), (131, 5)):
        case = Case.random(SHAPES[name])
        outs = []
        for at in range(0, 131, piece):
            part = joint[at : at + piece]
            outs.append(case.run(part, [len(part)], [0 if at else FRESH], [0], threads))
        assert np.array_equal(np.concatenate(outs), expected)
        assert case.left(0) == whole.left(0)


@pytest.mark.parametrize(
    ("size", "threads"), [(1, 16), (2, 5), (3, 2), (4, 1), (5, 3), (6, 5), (7, 16), (8, 2), (9, 3)]
)
def test_a_sequence_in_a_crowd_has_the_bits_it_has_alone(size: int, threads: int) -> None:
    name = "twice_the_value_heads" if size % 2 else "no_multiples_of_sixteen"
    rng = np.random.default_rng(size)
    case = Case.random(SHAPES[name])
    slots = rng.permutation(SLOTS)[:size].tolist()
    source = [FRESH] * size
    alone = [Case.random(SHAPES[name]) for _ in range(size)]
    for step in range(3):
        lengths = rng.choice([1, 1, 2, 17, 80], size).tolist()
        joint = case.joint(sum(lengths), seed=step)
        out = case.run(joint, lengths, source, slots, threads)
        at = 0
        for i, n in enumerate(lengths):
            expected = alone[i].run(joint[at : at + n], [n], [source[i]], [slots[i]])
            assert np.array_equal(out[at : at + n], expected)
            assert case.left(slots[i]) == alone[i].left(slots[i])
            at += n
        source = slots


@pytest.mark.parametrize("threads", [1, 3])
def test_forks_read_before_anyone_writes(threads: int) -> None:
    """0 -> 1, 1 -> 2, 2 -> 0, 0 -> 5 and a fresh one in 3: each sees what its source held before."""
    case = Case.random(SHAPES["twice_the_value_heads"])
    for slot in range(3):
        case.run(case.joint(5, seed=slot), [5], [FRESH], [slot])
    src, dst, lengths = [0, 1, 2, 0, FRESH], [1, 2, 0, 5, 3], [1, 20, 2, 1, 3]
    joint = case.joint(sum(lengths), seed=9)
    expected, at = [], 0
    for s, n in zip(src, lengths, strict=True):
        other = Case(
            case.shape, case.w, DeltaState(case.state.conv_window.copy(), case.state.recurrent.copy())
        )
        expected.append((other.run(joint[at : at + n], [n], [s], [4]), other.left(4)))
        at += n
    before = case.left(9)
    out = case.run(joint, lengths, src, dst, threads)
    assert np.array_equal(out, np.concatenate([o for o, _ in expected]))
    assert [case.left(slot) for slot in dst] == [left for _, left in expected]
    assert case.left(9) == before


def test_a_snapshot_stays_as_it_was() -> None:
    case = Case.random(SHAPES["square"])
    case.run(case.joint(5), [5], [FRESH], [0])
    kept = case.left(0)
    first = case.run(case.joint(3, seed=2), [3], [0], [1])
    assert case.left(0) == kept
    assert np.array_equal(case.run(case.joint(3, seed=2), [3], [0], [2]), first)
    assert case.left(1) == case.left(2)


def test_a_fresh_sequence_ignores_what_its_slot_held() -> None:
    case = Case.random(SHAPES["square"])
    joint = case.joint(3)
    expected = case.run(joint, [3], [FRESH], [0])
    left = case.left(0)
    case.state.conv_window[0], case.state.recurrent[0] = np.nan, np.nan
    assert np.array_equal(case.run(joint, [3], [FRESH], [0]), expected)
    assert case.left(0) == left


@pytest.mark.parametrize("a", [-1e30, -200, 0, 200, 1e30])
def test_extreme_gates_stay_finite(a: float) -> None:
    case = Case.random(SHAPES["twice_the_value_heads"])
    joint = case.joint(6)
    for part in case.parts(joint)[2:]:
        part[:] = a
    out, _, S = twins.gated_delta(*case.parts(joint), case.w, case.shape, *start_of(case.shape))
    assert np.array_equal(case.run(joint, [6], [FRESH], [0]), out)
    assert np.isfinite(out).all()
    assert np.isfinite(S).all()


def test_silent_and_loud_rows() -> None:
    """All zero; and projections so large that only the norms keep them in bounds."""
    case = Case.random(SHAPES["square"])
    for scale in (0, 1e-12, 1e6):
        joint = case.joint(6, scale=scale)
        out, _, _ = twins.gated_delta(*case.parts(joint), case.w, case.shape, *start_of(case.shape))
        assert np.array_equal(case.run(joint, [6], [FRESH], [0]), out)
        assert np.isfinite(out).all()
