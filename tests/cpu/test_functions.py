"""exp, sigmoid, silu, softplus of the CPU kernels: few units in the last place, the same bits as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from qanat.backends.cpu.simd import functions as simd
from qanat.backends.cpu.simd import load_f32, store_f32
from qanat.backends.cpu.twins import functions as twins

UNITS = {"exp": 1, "log1p_unit": 1.5, "softplus": 2, "sigmoid": 2.5, "silu": 2.5}
NAMES = tuple(UNITS)
TINY = float(np.finfo(np.float32).tiny)


def over_array(function: Any) -> Any:
    @njit(nogil=True)
    def loop(x, y):  # type: ignore[no-untyped-def]
        for i in range(0, len(x), 16):
            store_f32(y, i, function(load_f32(x, i)))

    def run(x: np.ndarray) -> np.ndarray:
        padded = np.zeros(-(-len(x) // 16) * 16, np.float32)
        padded[: len(x)] = x
        y = np.empty_like(padded)
        loop(padded, y)
        return y[: len(x)]

    return run


KERNELS = {name: over_array(getattr(simd, name)) for name in NAMES}


def exact(name: str, x: np.ndarray) -> np.ndarray:
    y = x.astype(np.float64)
    if name == "log1p_unit":
        return np.log1p(y)
    with np.errstate(over="ignore"):
        e = np.exp(-np.abs(y))
        sigmoid = np.where(y < 0, e, 1) / (1 + e)
        all_of_x = {"exp": np.exp(y), "sigmoid": sigmoid, "silu": y * sigmoid}
        return {**all_of_x, "softplus": np.maximum(y, 0) + np.log1p(e)}[name]


def samples(name: str) -> np.ndarray:
    """A million values: everyday ones, all magnitudes of float32, and the whole range of exp."""
    rng = np.random.default_rng(0)
    if name == "log1p_unit":
        return np.abs(np.concatenate([rng.random(500_000), 2.0 ** rng.uniform(-149, 0, 500_000)])).astype(
            "f4"
        )
    bits = rng.integers(0, 2**32, 400_000, dtype=np.uint32).view(np.float32)
    normal = 3 * rng.standard_normal(300_000)
    wide = rng.uniform(-105, 90, 300_000)
    return np.concatenate([bits[np.isfinite(bits)], normal, wide]).astype(np.float32)


@pytest.mark.parametrize("name", NAMES)
def test_few_units_in_the_last_place_over_the_whole_range(name: str) -> None:
    x = samples(name)
    y, true = KERNELS[name](x).astype(np.float64), exact(name, x)
    # Where an exponential is subnormal its error is absolute; silu multiplies it by x.
    small = (np.abs(true) <= TINY) if name != "silu" else (np.abs(true) <= TINY) | (x < -87)
    assert np.abs(y[small] - true[small]).max(initial=0) <= (89 if name == "silu" else 1) * TINY
    normal = ~small & (true < np.finfo(np.float32).max)
    if name == "exp":
        normal &= x < 88.37  # infinite from there
    unit = np.spacing(np.abs(true[normal]).astype(np.float32)).astype(np.float64)
    assert (np.abs(y[normal] - true[normal]) / unit).max() <= UNITS[name]


@pytest.mark.parametrize("name", NAMES)
def test_same_bits_as_in_numpy(name: str) -> None:
    x = samples(name)
    assert np.array_equal(KERNELS[name](x), getattr(twins, name)(x))


def test_edges() -> None:
    inf = np.float32(np.inf)
    x = np.array([0, -0.0, inf, -inf, 1e30, -1e30, 88.37, 88.38, -87.6, -87.7, 1e-45], np.float32)
    y = KERNELS["exp"](x)
    assert y[:2].tolist() == [1, 1]
    assert y[2:6].tolist() == [inf, 0, inf, 0]
    assert np.isfinite(y[6])
    assert y[7] == inf
    assert 0 < y[8] < TINY
    assert y[9] == 0
    assert y[10] == 1
    assert KERNELS["sigmoid"](x)[:6].tolist() == [0.5, 0.5, 1, 0, 1, 0]
    assert KERNELS["softplus"](x)[2:6].tolist() == [inf, 0, np.float32(1e30), 0]
    assert KERNELS["silu"](x)[:3].tolist() == [0, 0, inf]
    assert KERNELS["silu"](x)[4:6].tolist() == [np.float32(1e30), 0]


@pytest.mark.parametrize("name", NAMES)
def test_nan_stays_nan(name: str) -> None:
    x = np.array([np.nan, -np.nan, 0.5], np.float32)
    assert np.isnan(KERNELS[name](x)).tolist() == [True, True, False]


@pytest.mark.parametrize("name", ["exp", "sigmoid", "softplus"])
def test_monotone_up_to_one_unit(name: str) -> None:
    x = np.sort(samples(name)[400_000:])
    y = KERNELS[name](x)
    assert (y[1:] >= np.nextafter(y[:-1], np.float32(-1))).all()


def test_fma_twin_rounds_once() -> None:
    """Where float64 would round twice: a sum just beside the middle between two float32."""
    a, b, c = (np.array([v], np.float32) for v in (1 + 2**-23, 2.0**-24 * (1 + 2**-23), 1))
    assert twins.fma(a, b, c)[0] == np.float32(1 + 2**-23)
    tie = np.array([2.0**-24], np.float32)
    one = np.ones(1, np.float32)
    assert twins.fma(tie, one, one)[0] == 1  # an exact tie goes to even
    assert twins.fma(tie, one + np.float32(2**-23), one)[0] == np.float32(1 + 2**-23)
    below = twins.fma(tie, np.array([1 - 2**-24], np.float32), one)
    assert below[0] == 1
