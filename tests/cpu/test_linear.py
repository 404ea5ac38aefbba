"""Linear layers on the CPU: the bits of their twins, whatever the rows beside a row and the threads."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from qanat.backends.cpu.linear import Quantised, multiply, multiply_quantised, quantise, swiglu_quantise
from qanat.backends.cpu.packing import PackedBf16, PackedInt8, pack
from qanat.backends.cpu.simd.dot import SPREADS
from qanat.backends.cpu.tape import Tape
from qanat.backends.cpu.twins import linear as twins
from qanat.backends.cpu.twins.norm import swiglu
from tests.cpu.tapes import on_tape

SIZES = [(16, 32), (40, 24), (70, 100), (130, 560)]
EPS = 1e-6


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape[-1]).standard_normal(shape).astype(np.float32)


def int8(x: np.ndarray, w: np.ndarray, threads: int = 1, residual: np.ndarray | None = None) -> np.ndarray:
    packed = pack([w], "int8")
    assert isinstance(packed, PackedInt8)
    rows = Quantised.empty(len(x), x.shape[1])
    out = np.full((len(x), packed.out_padded), np.nan, np.float32)
    wide = None if residual is None else np.pad(residual, ((0, 0), (0, out.shape[1] - len(w))))

    def write(tape: Tape) -> None:
        quantise(tape, x, rows)
        multiply_quantised(tape, rows, packed, out, wide)

    on_tape("int8", threads, write)
    return out[:, : len(w)]


def bf16(x: np.ndarray, w: np.ndarray, threads: int = 1, residual: np.ndarray | None = None) -> np.ndarray:
    packed = pack([w], "bf16")
    assert isinstance(packed, PackedBf16)
    out = np.full((len(x), packed.out_padded + 8), np.nan, np.float32)
    wide = None if residual is None else np.pad(residual, ((0, 0), (0, out.shape[1] - len(w))))
    on_tape("bf16", threads, lambda tape: multiply(tape, x, packed, out, wide))
    assert np.isnan(out[:, packed.out_padded :]).all()  # not touched
    return out[:, : len(w)]


def int8_twin(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return twins.linear_int8(*twins.quantise(x), *twins.quantise_weights(w))


def bf16_twin(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return twins.linear_bf16(x, w.astype(ml_dtypes.bfloat16).view(np.uint16))


BOTH = pytest.mark.parametrize(("kernel", "twin"), [(int8, int8_twin), (bf16, bf16_twin)])


@BOTH
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 14])
def test_kernel_equals_twin(kernel, twin, size: tuple[int, int], rows: int) -> None:
    x, w = numbers(rows, size[1]), numbers(*size)
    y = twin(x, w)
    assert np.array_equal(kernel(x, w), y)
    residual = numbers(rows, size[0])
    assert np.array_equal(kernel(x, w, 1, residual), residual + y)
    assert np.allclose(y, x @ w.T, atol=0.06 * np.sqrt(size[1]))


@BOTH
def test_kernel_equals_twin_at_the_extremes(kernel, twin) -> None:
    x, w = numbers(7, 96), numbers(40, 96)
    x[1], x[2], x[3] = 0, 1e-40, 1e30
    x[4, 50], x[5, 3] = 1e30, 2e-38
    w[1], w[2], w[3, 7] = 0, 1e-40, -1e6
    y = kernel(x, w)
    assert np.array_equal(y, twin(x, w))
    assert np.isfinite(y).all()
    assert not y[1].any()


@BOTH
def test_what_is_not_finite_stays_in_its_row_and_is_seen_there(kernel, twin) -> None:
    x, w = numbers(6, 40), numbers(20, 40)
    x[1, 3], x[4, 39] = np.nan, np.inf
    y = kernel(x, w)
    good = [0, 2, 3, 5]
    assert np.isfinite(y[good]).all()
    assert np.array_equal(y[good], twin(x[good], w))
    assert not np.isfinite(y[[1, 4]]).any()


@BOTH
def test_a_row_does_not_depend_on_the_rows_beside_it(kernel, twin) -> None:
    x, w = numbers(230, 560), numbers(70, 560)
    alone = np.concatenate([kernel(row[None], w) for row in x[:64]])
    assert np.array_equal(alone[:20], twin(x[:20], w))
    for rows in (*range(1, 10), 64):
        assert np.array_equal(kernel(x[:rows], w), alone[:rows])
    crowd = kernel(x, w)
    assert np.array_equal(crowd[:64], alone)
    assert np.array_equal(crowd[100:], kernel(x[100:], w))


@BOTH
@pytest.mark.parametrize("rows", [1, 3, 50])
def test_threads_do_not_change_the_result(kernel, twin, rows: int) -> None:
    x, w = numbers(rows, 100), numbers(200, 100)
    once = kernel(x, w, 1)
    for threads in (2, 3, 5):
        assert np.array_equal(kernel(x, w, threads), once)


def stored(rows: Quantised, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q int8 [n, groups, 32], scales and sums, from their layout in memory."""
    groups = len(rows.scales) // rows.capacity
    q = rows.q.reshape(rows.capacity, rows.ldq)[:n, : groups * 32]
    if SPREADS:
        q = q.reshape(n, -1, 4)[:, :, [0, 2, 1, 3]]
    shape = (rows.capacity, groups)
    return q.reshape(n, groups, 32), rows.scales.reshape(shape)[:n], rows.sums.reshape(shape)[:n]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("inputs", [1, 24, 32, 100, 560])
def test_quantised_rows_equal_their_twin(inputs: int, threads: int) -> None:
    x = numbers(9, inputs)
    x[1], x[2, 0], x[3] = 0, 1e30, 1e-40
    rows = Quantised.empty(11, inputs)
    on_tape("int8", threads, lambda tape: quantise(tape, x, rows))
    q, scales, sums = stored(rows, 9)
    for ours, twin in zip((q, scales), twins.quantise(x), strict=True):
        assert np.array_equal(ours, twin)
    assert np.array_equal(sums, 128 * q.sum(-1, dtype=np.int32))
    assert (np.abs(q.astype(np.int32)) <= 127).all()


@pytest.mark.parametrize("inputs", [24, 96, 100, 1500])
def test_norm_and_quantise_is_one_after_the_other(inputs: int) -> None:
    x, gain = numbers(5, inputs), numbers(inputs)
    x[1] = 0
    rows = Quantised.empty(5, inputs)
    on_tape("int8", 2, lambda tape: quantise(tape, x, rows, gain=gain, eps=EPS))
    q, scales, _ = stored(rows, 5)
    twin = twins.norm_quantise(x, gain, EPS)
    assert np.array_equal(q, twin[0])
    assert np.array_equal(scales, twin[1])


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("width", [24, 100, 512, 1500])
def test_swiglu_and_quantise_is_one_after_the_other(width: int, threads: int) -> None:
    joint = 4 * numbers(3, 2 * width + 13)
    rows = Quantised.empty(3, width)
    on_tape("int8", threads, lambda tape: swiglu_quantise(tape, joint, width + 1, rows))
    q, scales, _ = stored(rows, 3)
    expected = swiglu(joint[:, :width], joint[:, width + 1 : 2 * width + 1])
    for ours, twin in zip((q, scales), twins.quantise(expected), strict=True):
        assert np.array_equal(ours, twin)
    assert np.allclose(rows.numbers(), expected, atol=np.abs(expected).max() / 127)
