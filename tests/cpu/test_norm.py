"""RMSNorm and SwiGLU: the same bits as in NumPy, for any width, number of rows and threads."""

from __future__ import annotations

import numpy as np
import pytest

from qanat.backends.cpu.step import Step
from qanat.backends.cpu.tape import Operation
from qanat.backends.cpu.twins import norm as twins
from qanat.backends.reference import elementwise
from tests.cpu.tapes import on_tape

EPS = np.float32(1e-6)


def rms_norm(x: np.ndarray, weight: np.ndarray, threads: int) -> np.ndarray:
    out = np.full_like(x, np.nan)
    rows, width = x.shape
    on_tape(
        "bf16",
        threads,
        lambda tape: tape.add(Operation.NORM, x, width, rows, False, weight, EPS, out),
    )
    return out


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize(("rows", "width"), [(1, 8), (1, 37), (3, 48), (5, 16), (1, 2048), (40, 1000)])
def test_rms_norm(rows: int, width: int, threads: int) -> None:
    rng = np.random.default_rng(width)
    x, weight = (rng.standard_normal(size).astype(np.float32) for size in ((rows, width), width))
    y = rms_norm(x, weight, threads)
    assert np.array_equal(y, twins.rms_norm(x, weight, EPS))
    assert np.allclose(y, elementwise.rms_norm(x, weight, 1e-6), rtol=2e-6, atol=0)


def test_rms_norm_at_the_extremes() -> None:
    x = np.zeros((4, 24), np.float32)
    x[1], x[2], x[3] = 1e-20, 1e18, -3e-4
    ones = np.ones(24, np.float32)
    assert np.array_equal(rms_norm(x, ones, 1), twins.rms_norm(x, ones, EPS))
    assert not rms_norm(x, ones, 1)[0].any()
    assert np.allclose(rms_norm(x, ones, 1)[2], 1)


@pytest.mark.parametrize("mode", ["bf16", "int8"])
def test_the_head_norms_the_rows_that_are_asked_for(mode: str) -> None:
    x = np.random.default_rng(0).standard_normal((7, 64)).astype(np.float32)
    weight, wanted = np.ones(48, np.float32), np.array([6, 2], np.int32)
    out = np.full((2, 48), np.nan, np.float32)
    on_tape(
        mode,
        2,
        lambda tape: tape.add(Operation.NORM, x, 64, 2, True, weight, EPS, out),
        Step(output_rows=wanted),
    )
    assert np.array_equal(out, twins.rms_norm(x[wanted, :48], weight, EPS))


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize(("rows", "width"), [(1, 8), (2, 61), (1, 1024), (3, 1500), (1, 6144), (9, 2050)])
def test_swiglu_reads_the_joint_output_of_one_linear(rows: int, width: int, threads: int) -> None:
    rng = np.random.default_rng(width)
    stride = 2 * width + 13  # what a padded linear leaves behind the columns
    joint = (8 * rng.standard_normal((rows, stride))).astype(np.float32)
    out = np.full((rows, width), np.nan, np.float32)
    on_tape(
        "bf16",
        threads,
        lambda tape: tape.add(Operation.SWIGLU, joint, stride, width, rows, width, out),
    )
    gate, up = joint[:, :width], joint[:, width : 2 * width]
    assert np.array_equal(out, twins.swiglu(gate, up))
    assert np.allclose(out, elementwise.silu(gate) * up, rtol=1e-6, atol=1e-30)
