"""Each function of the reference backend against its equation, at the extremes that whole models hide."""

from __future__ import annotations

import numpy as np
import pytest

from qanat.backends.common.rotary import rotary_angles
from qanat.backends.reference import attention, delta, elementwise
from qanat.model.shapes import AttentionShape

OFFICIAL = AttentionShape(8, 2, 256, 64, 1e7, (11, 11, 10), 1e-6)


def f32(*values: float) -> elementwise.F32:
    return np.array(values, np.float32)


def test_l2norm_keeps_its_epsilon_inside_the_root() -> None:
    """With |x| about 1e-3 the epsilon changes the result by a third; larger rows would hide it."""
    x = np.full((1, 4), 5e-4, np.float32)  # sum of squares = 1e-6 = epsilon
    assert np.allclose(elementwise.l2norm(x), 5e-4 / np.sqrt(2e-6), rtol=1e-6)


def test_l2norm_is_a_sum_not_a_mean() -> None:
    x = np.random.default_rng(0).standard_normal((3, 16)).astype(np.float32)
    assert np.allclose(np.linalg.norm(elementwise.l2norm(x), axis=1), 1, rtol=1e-6)


def test_rms_norm_of_a_tiny_row_is_ruled_by_epsilon() -> None:
    x = np.full((1, 8), 1e-3, np.float32)  # mean square = 1e-6 = epsilon
    assert np.allclose(elementwise.rms_norm(x, np.ones(8, np.float32), 1e-6), np.sqrt(0.5), rtol=1e-5)


@pytest.mark.filterwarnings("error")
def test_activations_neither_overflow_nor_lose_the_tail() -> None:
    x = f32(-200, -90, -30, -20, -1, 0, 1, 20, 90, 200)
    y = x.astype(np.float64)
    exact = 1 / (1 + np.exp(-y))
    normal = exact > np.finfo(np.float32).tiny
    assert np.allclose(elementwise.sigmoid(x)[normal], exact[normal], rtol=3e-7)
    assert np.allclose(elementwise.softplus(x)[normal], np.log1p(np.exp(y))[normal], rtol=3e-7)
    assert np.allclose(elementwise.silu(x)[normal], (y * exact)[normal], rtol=5e-7)
    assert elementwise.softplus(f32(-200))[0] == 0


def test_decay_is_zero_or_negative_even_at_the_ends_of_float32() -> None:
    a_log = np.log(f32(1e-6, 1, 16, 1e6))
    g = delta.decay(f32(-1e4, 0, 30, 1e4), a_log, f32(0, 0, 0, 0))
    assert np.isfinite(g).all()
    assert (g <= 0).all()
    assert np.allclose(g[1], -np.log(2), rtol=1e-6)


def test_delta_step_decays_predicts_corrects_then_reads() -> None:
    """By hand, one head, dk = 2, dv = 1: S = [2, 4], decay 1/2, key (1, 0), value 5, beta 1/2."""
    S = np.array([[[2.0], [4.0]]], np.float32)
    o, after = delta.delta_step(S, f32(1, 1)[None], f32(1, 0)[None], f32(5)[None], np.log(f32(0.5)), f32(0.5))
    # decayed [1, 2]; predicted 1; correction (5 - 1) / 2 = 2; new memory [3, 2]; read 5
    assert np.allclose(after[0, :, 0], [3, 2])
    assert np.allclose(o, 5)
    assert np.array_equal(S[0, :, 0], [2, 4]), "the given state must stay as it was"


def test_strong_decay_forgets_without_a_nan() -> None:
    S = np.ones((1, 2, 2), np.float32)
    o, after = delta.delta_step(S, f32(1, 0)[None], f32(0, 0)[None], f32(1, 1)[None], f32(-1e30), f32(1))
    assert not after.any()
    assert not o.any()


def test_conv_window_holds_raw_projections_and_zeros_before_the_start() -> None:
    u = np.arange(1, 5, dtype=np.float32).reshape(2, 2)  # two tokens, two channels
    taps = np.array([[0, 0, 0, 1], [0, 0, 1, 0]], np.float32)  # current token; the one before
    y, window = delta.causal_conv(u, np.zeros((3, 2), np.float32), taps)
    assert np.allclose(y[:, 0], elementwise.silu(u[:, 0]))
    assert np.allclose(y[:, 1], [0, elementwise.silu(u[:1, 1])[0]])
    assert np.array_equal(window, [[0, 0], [1, 2], [3, 4]])


def test_official_mrope_gives_each_axis_its_interleaved_frequencies() -> None:
    positions = np.array([[1], [0], [0]], np.int32)
    time = rotary_angles(positions, OFFICIAL)[0] != 0
    height = rotary_angles(np.roll(positions, 1, 0), OFFICIAL)[0] != 0
    width = rotary_angles(np.roll(positions, 2, 0), OFFICIAL)[0] != 0
    assert np.flatnonzero(height).tolist() == list(range(1, 32, 3))
    assert np.flatnonzero(width).tolist() == list(range(2, 30, 3))
    assert np.array_equal(time, ~(height | width))


def test_rotary_exponent_uses_the_rotary_dims_and_far_positions_turn_right() -> None:
    positions = np.full((3, 1), 200_000, np.int32)
    angles = rotary_angles(positions, OFFICIAL)[0].astype(np.float64)
    exact = 200_000 * 1e7 ** (-2 * np.arange(32) / 64)
    assert np.allclose(angles, exact, rtol=3e-7)


def test_rotation_pairs_dims_half_apart_and_leaves_the_rest() -> None:
    x = np.zeros((1, 1, 6), np.float32)
    x[..., 0], x[..., 5] = 1, 7
    turned = attention.rotate(x, np.array([[np.pi / 2, 0.3]], np.float32))
    assert np.allclose(turned[0, 0], [0, 0, 1, 0, 0, 7], atol=1e-6)


def test_attention_over_one_token_returns_its_value_and_large_scores_stay_finite() -> None:
    rng = np.random.default_rng(1)
    q = 1e4 * rng.standard_normal((2, 3, 8)).astype(np.float32)
    keys = 1e4 * rng.standard_normal((5, 2, 8)).astype(np.float32)
    values = rng.standard_normal((5, 2, 8)).astype(np.float32)
    out = attention.attend(q, keys[:1], values[:1])
    assert np.allclose(out, np.repeat(values[0][:, None], 3, 1))
    assert np.isfinite(attention.attend(q, keys, values)).all()


def test_grouped_query_heads_share_neighbouring_key_heads() -> None:
    """Query heads 0..2 look at key head 0, 3..5 at key head 1: not alternately."""
    values = np.stack([np.zeros((1, 4)), np.ones((1, 4))], axis=1).astype(np.float32)  # [1, 2, 4]
    out = attention.attend(np.ones((2, 3, 4), np.float32), np.ones((1, 2, 4), np.float32), values)
    assert not out[0].any()
    assert (out[1] == 1).all()
