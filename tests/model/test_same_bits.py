"""Invariant 1 on the reference backend: the same request gives the same bits, however it is run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qanat.backends.reference.linear import Linear
from qanat.model import Batch
from tests.model import runs, tiny

NAMES = ("value_heads_3x", "bfloat16_tied_3x", "odd_sizes")


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8, deadline=None)
@given(cuts=st.lists(st.integers(1, 95), max_size=6, unique=True))
def test_a_prompt_read_in_pieces_gives_the_same_bits(name: str, cuts: list[int]) -> None:
    model = runs.build(tiny.config_dict(name), tiny.random_tensors(name))
    tokens = tiny.token_stream(name, 96)
    whole = runs.logits_of(model, [tokens])
    pieces = runs.logits_of(model, np.split(tokens, sorted(cuts)))
    assert np.array_equal(whole, pieces)


@pytest.mark.parametrize("name", NAMES)
def test_a_sequence_in_a_crowd_gives_the_same_bits_as_alone(name: str) -> None:
    model = runs.build(tiny.config_dict(name), tiny.random_tensors(name))
    tokens = tiny.token_stream(name, 90)
    alone = runs.logits_of(model, [tokens])
    crowd = runs.Sequences(model)
    rows = [crowd.feed({2: tokens[50:57], 1: tokens[:40], 0: tokens[3:4]})[1]]
    for i in range(40, 60):  # decode beside a sequence that is still being read
        rows.append(crowd.feed({0: tokens[i - 20 : i - 17], 1: tokens[i : i + 1], 3: tokens[i : i + 9]})[1])
    rows.append(crowd.feed({3: tokens[:1], 1: tokens[60:90]})[1])
    assert np.array_equal(alone, np.concatenate(rows))


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_residency_gives_the_same_bits_when_the_file_is_bfloat16(name: str) -> None:
    config, tensors = tiny.config_dict(name), tiny.random_tensors(name)
    tokens = tiny.token_stream(name, 24)
    f32, bf16 = (runs.logits_of(runs.build(config, tensors, mode), [tokens]) for mode in ("f32", "bf16"))
    assert np.array_equal(f32, bf16) == (name == "bfloat16_tied_3x")
    assert np.abs(f32 - bf16).max() < 0.5


def test_a_fork_reads_its_parents_slot_before_anyone_writes_it() -> None:
    """src_slot and dst_slot: parent continues in place while a child starts from the same state."""
    name = "value_heads_2x"
    model = runs.build(tiny.config_dict(name), tiny.random_tensors(name))
    tokens = tiny.token_stream(name, 60)
    expected = {t: runs.logits_of(model, [tokens[:32], tokens[t : t + 4]])[-4:] for t in (40, 50)}
    for order in ((0, 1), (1, 0)):
        run = runs.Sequences(model)
        run.feed({0: tokens[:32]})
        table = np.array([np.arange(run.strip), np.arange(run.strip) + run.strip], np.int32)
        table[1, :2] = table[0, :2]  # 32 tokens = two full pages, shared
        new = [tokens[40:44], tokens[50:54]]
        batch = Batch(
            tokens=np.concatenate([new[i] for i in order]),
            starts=np.array([0, 4, 8], np.int32),
            cache_len=np.array([32, 32], np.int32),
            rope_positions=np.tile(np.tile(np.arange(32, 36, dtype=np.int32), 2), (3, 1)),
            page_table=table[list(order)],
            src_slot=np.array([0, 0], np.int32),
            dst_slot=np.array(order, np.int32),
            output_rows=np.arange(8, dtype=np.int32),
        )
        out = model.forward(batch, run.state).logits
        for place, which in enumerate(order):
            assert np.array_equal(out[4 * place : 4 * place + 4], expected[(40, 50)[which]])


def test_a_step_repeated_from_a_snapshot_gives_the_same_bits() -> None:
    """Writing to another slot leaves the source as it was: the same step can be run again."""
    name = "eight_layers"
    model = runs.build(tiny.config_dict(name), tiny.random_tensors(name))
    tokens = tiny.token_stream(name, 40)
    run = runs.Sequences(model)
    run.feed({0: tokens[:30]})
    results = []
    for target in (1, 2):
        batch = Batch(
            tokens=tokens[30:33],
            starts=np.array([0, 3], np.int32),
            cache_len=np.array([30], np.int32),
            rope_positions=np.tile(np.arange(30, 33, dtype=np.int32), (3, 1)),
            page_table=np.arange(run.strip, dtype=np.int32)[None],
            src_slot=np.array([0], np.int32),
            dst_slot=np.array([target], np.int32),
            output_rows=np.array([0, 2], np.int32),
        )
        results.append(model.forward(batch, run.state).logits)
    assert np.array_equal(results[0], results[1])
    whole = runs.logits_of(model, [tokens[:33]])
    assert np.array_equal(results[0], whole[[30, 32]])


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 9), outs=st.integers(1, 1100), ins=st.integers(1, 300), seed=st.integers(0, 2**32 - 1)
)
def test_a_linear_row_does_not_depend_on_other_rows(rows: int, outs: int, ins: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((outs, ins)).astype(np.float32)
    x = rng.standard_normal((rows, ins)).astype(np.float32)
    together = Linear([w], bfloat16=False)(x)
    cut = outs // 2 + 1
    for i in range(rows):
        assert np.array_equal(together[i], Linear([w[:cut], w[cut:]], bfloat16=False)(x[i : i + 1])[0])
    assert np.allclose(together, x.astype(np.float64) @ w.T.astype(np.float64), atol=1e-3)
