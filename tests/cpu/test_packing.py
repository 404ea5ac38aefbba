"""Packed weights: the layout and the numbers of the twin, for any mixture of parts, read back row by row."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from qanat.backends.cpu import packing
from qanat.backends.cpu.packing import PackedBf16, PackedInt8, pack
from qanat.backends.cpu.twins import linear as twins
from qanat.errors import CheckpointError

SIZES = [(1, 1), (16, 32), (40, 24), (70, 100), (130, 320)]


def weights(outputs: int, inputs: int) -> np.ndarray:
    rng = np.random.default_rng(outputs)
    w = rng.standard_normal((outputs, inputs)) * np.exp(rng.standard_normal((outputs, 1)) * 4)
    return w.astype(np.float32)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("size", SIZES)
def test_int8_has_the_layout_and_the_numbers_of_its_twin(size: tuple[int, int], threads: int) -> None:
    w = weights(*size)
    packed = pack([w], "int8", threads)
    assert isinstance(packed, PackedInt8)
    q, scales = twins.quantise_weights(w)
    data = twins.panels(q.reshape(*q.shape[:2], 8, 4), packed.out_padded).transpose(0, 2, 3, 1, 4)
    assert np.array_equal(packed.data, data.reshape(-1))
    assert np.array_equal(
        packed.scales, twins.panels(scales, packed.out_padded).transpose(0, 2, 1).reshape(-1)
    )
    assert packed.data.ctypes.data % 64 == 0


@pytest.mark.parametrize("size", SIZES)
def test_bf16_has_the_layout_of_its_twin_and_rounds_to_nearest_even(size: tuple[int, int]) -> None:
    w = weights(*size)
    packed = pack([w], "bf16", 2)
    assert isinstance(packed, PackedBf16)
    bits = np.zeros((size[0], packed.in_padded), np.uint16)
    bits[:, : size[1]] = w.astype(ml_dtypes.bfloat16).view(np.uint16)
    expected = twins.panels(bits, packed.out_padded).transpose(0, 2, 1)
    assert np.array_equal(packed.data, expected.reshape(-1))


def test_bf16_keeps_what_is_not_finite() -> None:
    w = np.array([[np.inf, -np.inf, np.nan, 3e38, 1e-40, -0.0]], np.float32)
    expected = w.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert np.array_equal(pack([w], "bf16").unpack(), expected, equal_nan=True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_int8_refuses_weights_that_are_not_finite(value: float) -> None:
    w = weights(40, 70)
    w[33, 66] = value
    with pytest.raises(CheckpointError, match="not a finite number"):
        pack([w], "int8", 2)


def test_int8_at_the_extremes() -> None:
    w = np.zeros((6, 32), np.float32)
    w[1], w[2], w[3], w[4, 7], w[5] = 1e-45, 1e-39, 8.1e6, -8.1e6, np.linspace(-3e-13, 3e-13, 32)
    w[2, ::3] = 0
    q, scales = twins.quantise_weights(w)
    expected = (q.astype(np.float32) * twins.from_scale(scales)[..., None]).reshape(6, 32)
    unpacked = pack([w], "int8").unpack()
    assert np.array_equal(unpacked, expected)
    assert not unpacked[:3].any()
    assert np.allclose(unpacked[3:5], w[3:5], rtol=0.001)
    assert np.abs(unpacked[5] - w[5]).max() <= 2.0**-49


@pytest.mark.parametrize("value", [8.2e6, -1e9, 3.4e38])
def test_int8_refuses_weights_that_it_cannot_hold_and_names_the_way_out(value: float) -> None:
    w = weights(40, 70)
    w[33, 66] = value
    with pytest.raises(CheckpointError, match=r"8 million.*bf16"):
        pack([w], "int8", 2)


def test_a_scale_is_the_nearest_that_can_be_stored() -> None:
    every = twins.from_scale(np.arange(1 << 16, dtype=np.uint16))
    assert (every[0], every[-1]) == (2.0**-48, 2.0**16 - 2.0**5)
    assert np.array_equal(twins.to_scale(every), np.arange(1 << 16))
    x = np.exp(np.random.default_rng(1).uniform(np.log(every[0]), np.log(every[-1]), 5000)).astype(np.float32)
    off = np.abs(every - x[:, None].astype(np.float64)).min(1)
    assert np.array_equal(np.abs(twins.from_scale(twins.to_scale(x)) - x.astype(np.float64)), off)
    assert not twins.to_scale(np.array([0, 1e-45, 1e-20], np.float32)).any()


@pytest.mark.parametrize("mode", ["int8", "bf16"])
def test_parts_of_any_type_pack_like_their_concatenation(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    w = weights(150, 48).astype(np.float16)
    parts = [w[:7], w[7:60].astype(np.float32), w[60:61], w[61:]]
    whole = pack([w.astype(np.float32)], mode)
    monkeypatch.setattr(packing, "CHUNK", 48 * 48 * 4)  # several chunks, cut across the parts
    packed = pack(parts, mode)
    assert all(np.array_equal(packed.arrays()[name], array) for name, array in whole.arrays().items())
    if mode == "bf16":
        bf16 = w.astype(ml_dtypes.bfloat16)
        assert np.array_equal(pack([bf16], mode).unpack(), bf16.astype(np.float32))


@pytest.mark.parametrize("mode", ["int8", "bf16"])
def test_single_rows_are_read_back(mode: str) -> None:
    packed = pack([weights(70, 100)], mode)
    ids = np.array([69, 0, 17, 17], np.int32)
    assert np.array_equal(packed.rows(ids), packed.unpack()[ids])
    assert packed.rows(ids[:0]).shape == (0, 100)
    for wrong in (-1, 70):
        with pytest.raises(IndexError):
            packed.rows(np.array([wrong]))
