"""The gated-attention kernel: its twin's bits, the reference's numbers, the same bits however work is cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from qanat.backends.common.rotary import rotary_angles
from qanat.backends.cpu.state import PAGE, AttentionState, CpuState
from qanat.backends.cpu.step import AttentionLayout, Step
from qanat.backends.cpu.tape import Operation
from qanat.backends.cpu.twins import attention as twins
from qanat.backends.cpu.twins.functions import to_bf16
from qanat.backends.cpu.workspace import Workspace
from qanat.backends.reference import attention as reference
from qanat.backends.reference.state import AttentionState as ReferenceState
from qanat.model.batch import Batch
from qanat.model.ops import AttentionWeights
from qanat.model.shapes import AttentionShape
from tests.cpu.tapes import on_tape

ROPE = (1e7, (11, 11, 10), 1e-6)
SHAPES = {
    "one_head": AttentionShape(1, 1, 16, 8, 1e4, (2, 1, 1), 1e-6),
    "two_queries_a_key": AttentionShape(4, 2, 32, 8, 1e7, (2, 1, 1), 1e-6),
    "five_queries_a_key": AttentionShape(5, 1, 24, 12, 1e4, (2, 2, 2), 1e-5),
    "six_queries_a_key": AttentionShape(12, 2, 64, 64, *ROPE),
    "published": AttentionShape(8, 2, 256, 64, *ROPE),
    "eight_queries_a_key": AttentionShape(8, 1, 128, 64, *ROPE),
}
PAGES = 40


@dataclass
class Case:
    """Weights of one layer, its cache, and sequences whose pages lie scattered in it."""

    shape: AttentionShape
    w: AttentionWeights[np.ndarray]
    state: AttentionState

    @staticmethod
    def random(shape: AttentionShape, dtype: str = "bf16", pages: int = PAGES) -> Case:
        rng = np.random.default_rng(0)
        norms = (1 + rng.standard_normal((2, shape.head_dim)) / 4).astype(np.float32)
        state = AttentionState.zeros(shape, pages, dtype)
        # What former owners left: no finite value of it may matter.
        state.keys[:], state.values[:] = (0x7F7F, 0xFF7F) if dtype == "bf16" else (3e38, -3e38)
        return Case(shape, AttentionWeights(*norms), state)

    def columns(self) -> tuple[list[int], list[int], int]:
        n = self.shape.head_dim
        widths = [2 * self.shape.heads * n, self.shape.kv_heads * n, self.shape.kv_heads * n]
        starts = [3, 3 + widths[0] + 4, 3 + widths[0] + 4 + widths[1] + 1]
        return starts, widths, starts[2] + widths[2] + 2

    def joint(self, rows: int, seed: int = 1) -> np.ndarray:
        """[rows, stride] with gaps between the parts that are not a number."""
        starts, widths, stride = self.columns()
        rng = np.random.default_rng(seed)
        joint = np.full((rows, stride), np.nan, np.float32)
        for at, n in zip(starts, widths, strict=True):
            joint[:, at : at + n] = rng.standard_normal((rows, n))
        return joint

    def parts(self, joint: np.ndarray) -> list[np.ndarray]:
        starts, widths, _ = self.columns()
        return [np.ascontiguousarray(joint[:, at : at + n]) for at, n in zip(starts, widths, strict=True)]

    def angles(self, batch: Batch) -> np.ndarray:
        return rotary_angles(batch.rope_positions, self.shape)

    def run(self, joint: np.ndarray, batch: Batch, threads: int = 1) -> np.ndarray:
        (q, k, v), _, stride = self.columns()
        work = Workspace()
        work.floats(1 << 20)[:] = np.nan
        layout = AttentionLayout(self.shape, stride, (q, k, v))
        step = Step.of(batch, None, layout, work, threads)
        out = np.full((len(joint), self.shape.heads * self.shape.head_dim), np.nan, np.float32)
        w, state, eps = self.w, self.state, np.float32(self.shape.eps)
        on_tape(
            "bf16" if state.keys.dtype == np.float32 else "int8",
            threads,
            lambda tape: tape.add(
                Operation.ATTENTION, joint, eps, w.q_norm, w.k_norm, state.keys, state.values, out
            ),
            step,
        )
        return out

    def kept(self, table: np.ndarray, tokens: int) -> bytes:
        """Keys and values of the first tokens of a sequence."""
        keys = (
            self.state.keys[table]
            .transpose(0, 2, 4, 1, 3)
            .reshape(-1, self.shape.kv_heads * self.shape.head_dim)
        )
        values = self.state.values[table].transpose(0, 3, 1, 2, 4)
        values = values.reshape(len(table) * PAGE, self.shape.kv_heads, -1)[..., : self.shape.head_dim]
        return keys[:tokens].tobytes() + np.ascontiguousarray(values[:tokens]).tobytes()


def batch_of(lengths: list[int], cached: list[int], tables: np.ndarray) -> Batch:
    n, size = sum(lengths), len(lengths)
    positions = np.concatenate([np.arange(c, c + n) for c, n in zip(cached, lengths, strict=True)])
    return Batch(
        tokens=np.zeros(n, np.int32),
        starts=np.cumsum([0, *lengths], dtype=np.int32),
        cache_len=np.array(cached, np.int32),
        rope_positions=np.tile(positions.astype(np.int32), (3, 1)),
        page_table=tables.astype(np.int32),
        src_slot=np.arange(size, dtype=np.int32),
        dst_slot=np.arange(size, dtype=np.int32),
        output_rows=np.zeros(0, np.int32),
    )


def tables(size: int, pages: int = PAGES) -> np.ndarray:
    each = pages // size
    return np.random.default_rng(5).permutation(pages)[: each * size].reshape(size, each)


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("name", SHAPES)
def test_twin_and_kernel_have_the_same_bits(name: str, dtype: str) -> None:
    case = Case.random(SHAPES[name], dtype)
    old = np.zeros((2, 0, case.shape.kv_heads, case.shape.head_dim), np.float32)
    at = 0
    for n in (70, 1, 2):
        joint, batch = case.joint(n, seed=n), batch_of([n], [at], tables(1))
        angles = case.angles(batch)
        expected, *old = twins.gated_attention(
            *case.parts(joint), case.w, np.cos(angles), np.sin(angles), case.shape, *old, dtype
        )
        assert np.array_equal(case.run(joint, batch), expected)
        at += n


def test_many_pages_and_units_have_the_bits_of_the_twin() -> None:
    """Row 1,300 sees three units of eight pages; threads share them."""
    case = Case.random(SHAPES["two_queries_a_key"], "f32")
    case.run(case.joint(1299), batch_of([1299], [0], tables(1)))
    keys = case.state.keys[tables(1)[0]].transpose(0, 2, 4, 1, 3).reshape(-1, 2, 32)[:1299]
    values = case.state.values[tables(1)[0]].transpose(0, 3, 1, 2, 4).reshape(-1, 2, 32)[:1299]
    joint, batch = case.joint(1, seed=2), batch_of([1], [1299], tables(1))
    angles = case.angles(batch)
    expected, _, _ = twins.gated_attention(
        *case.parts(joint), case.w, np.cos(angles), np.sin(angles), case.shape, keys, values, "f32"
    )
    for threads in (1, 2, 3, 5):
        assert np.array_equal(case.run(joint, batch, threads), expected)


@pytest.mark.parametrize("name", SHAPES)
def test_near_the_reference(name: str) -> None:
    case = Case.random(SHAPES[name], "f32")
    other = ReferenceState.zeros(case.shape, PAGES, PAGE)
    w = case.w
    cached = [0, 0, 0]
    for lengths in ([70, 1, 9], [1, 130, 1]):
        joint, batch = case.joint(sum(lengths), seed=sum(lengths)), batch_of(lengths, cached, tables(3))
        expected = reference.gated_attention(*case.parts(joint), w, case.shape, batch, other)
        assert np.abs(case.run(joint, batch) - expected).max() <= 1e-5 * np.abs(expected).max()
        cached = lengths


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("name", SHAPES)
def test_pieces_and_threads_leave_the_same_bits(name: str, dtype: str) -> None:
    whole = Case.random(SHAPES[name], dtype)
    n = 150
    joint, table = whole.joint(n), tables(1)
    expected = whole.run(joint, batch_of([n], [0], table))
    for piece, threads in ((1, 1), (7, 2), (64, 3), (n, 2), (n, 5)):
        case = Case.random(SHAPES[name], dtype)
        outs = []
        for at in range(0, n, piece):
            part = joint[at : at + piece]
            outs.append(case.run(part, batch_of([len(part)], [at], table), threads))
        assert np.array_equal(np.concatenate(outs), expected)
        assert case.kept(table[0], n) == whole.kept(table[0], n)


@pytest.mark.parametrize(
    ("size", "threads"), [(1, 16), (2, 5), (3, 2), (4, 1), (5, 3), (6, 5), (7, 16), (8, 2), (9, 3)]
)
def test_a_sequence_in_a_crowd_has_the_bits_it_has_alone(size: int, threads: int) -> None:
    name = "two_queries_a_key" if size % 2 else "five_queries_a_key"
    rng = np.random.default_rng(size)
    table = tables(size)
    case, alone = Case.random(SHAPES[name]), Case.random(SHAPES[name])
    cached = [0] * size
    for step in range(3):
        lengths = rng.choice([1, 1, 2, 17, 80], size).tolist()
        joint = case.joint(sum(lengths), seed=step)
        out = case.run(joint, batch_of(lengths, cached, table), threads)
        at = 0
        for i, n in enumerate(lengths):
            batch = batch_of([n], [cached[i]], table[i : i + 1])
            assert np.array_equal(out[at : at + n], alone.run(joint[at : at + n], batch))
            at += n
            cached[i] += n
            assert case.kept(table[i], cached[i]) == alone.kept(table[i], cached[i])


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_a_long_context_is_shared_among_threads_without_a_trace(threads: int, dtype: str) -> None:
    case = Case.random(SHAPES["two_queries_a_key"], dtype, 80)
    rng = np.random.default_rng(1)
    for cache in (case.state.keys, case.state.values):
        values = rng.standard_normal(cache.shape).astype(np.float32)
        cache[:] = values if dtype == "f32" else to_bf16(values)
    table = tables(2, 80)
    for lengths, cached in (([1, 1], [2500, 1000]), ([3, 40], [2047, 63]), ([1, 20], [600, 2100])):
        joint, batch = case.joint(sum(lengths)), batch_of(lengths, cached, table)
        assert np.array_equal(case.run(joint, batch, threads), case.run(joint, batch, 1))


def test_a_loud_key_takes_everything_and_equal_keys_share_evenly() -> None:
    case = Case.random(SHAPES["two_queries_a_key"], "f32")
    joint = case.joint(200)
    q, k, v = (joint[:, at : at + n] for at, n in zip(*case.columns()[:2], strict=True))
    k[:] = 0
    batch = batch_of([200], [0], tables(1))
    out = case.run(joint, batch)
    means = np.cumsum(v.astype(np.float64), axis=0) / np.arange(1, 201)[:, None]
    gates = q.reshape(200, 4, 2, 32)[:, :, 1].astype(np.float64)
    expected = np.repeat(means.reshape(200, 2, 32), 2, axis=1) / (1 + np.exp(-gates))
    assert np.abs(out - expected.reshape(200, -1)).max() <= 1e-5
    loud = Case(case.shape, AttentionWeights(*(1e4 * case.w.q_norm, 1e4 * case.w.k_norm)), case.state)
    joint = case.joint(200)
    out = loud.run(joint, batch)
    angles = loud.angles(batch)
    old = np.zeros((2, 0, 2, 32), np.float32)
    twin, _, _ = twins.gated_attention(
        *loud.parts(joint), loud.w, np.cos(angles), np.sin(angles), loud.shape, *old, "f32"
    )
    assert np.array_equal(out, twin)
    assert np.isfinite(out).all()


def test_a_later_token_that_is_not_a_number_stays_unseen() -> None:
    case = Case.random(SHAPES["two_queries_a_key"])
    joint, batch = case.joint(40), batch_of([40], [0], tables(1))
    expected = case.run(joint, batch)
    joint[20:] = np.nan
    out = case.run(joint, batch)
    assert np.array_equal(out[:20], expected[:20])
    assert np.isnan(out[20:]).all()


def test_a_page_of_another_size_or_dtype_is_refused() -> None:
    with pytest.raises(ValueError, match="pages of 64"):
        CpuState.zeros([SHAPES["one_head"]], 1, 1, 16, "f32")
    with pytest.raises(ValueError, match="kv must be"):
        CpuState.zeros([SHAPES["one_head"]], 1, 1, PAGE, "f16")
