"""Processors and the draw, on rows of logits."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from assets import GOLDEN
from qanat.backends.common.weights import MOST_IDS, UNIT, defined_exp, weigh
from qanat.backends.reference.processors import keep_candidates, process_logits
from qanat.backends.reference.sampling import sample
from qanat.errors import NumericalError, RequestError
from qanat.model.sampling import SamplingRow

ids = lambda *values: np.array(values, np.int32)  # noqa: E731


def row_of(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def one(logits: NDArray[np.float32], row: SamplingRow, live: int | None = None) -> int:
    return sample(logits[None], [row], len(logits) if live is None else live)[0].token


def test_greedy_takes_the_lowest_id_of_equal_logits() -> None:
    assert one(row_of(0, 3, 1, 3), SamplingRow()) == 1


def test_greedy_looks_at_processed_logits() -> None:
    assert one(row_of(0, 3, 2.5), SamplingRow(presence_penalty=1, output=ids(1))) == 2
    assert one(row_of(0, 3, 2.5), SamplingRow(logit_bias={0: 4})) == 0
    assert one(row_of(0, 3, 2.5), SamplingRow(banned=ids(1))) == 2


@pytest.mark.parametrize("temperature", [0.0, 1.0, 50.0])
def test_dead_rows_are_never_chosen(temperature: float) -> None:
    logits = row_of(0, 1, 2, 100, 100)
    chosen = {
        one(logits, SamplingRow(temperature=temperature, seed=s, logit_bias={4: 9}), live=3)
        for s in range(99)
    }
    assert chosen <= {0, 1, 2}


def words(*allowed: int) -> NDArray[np.uint32]:
    return np.array([sum(1 << i for i in allowed)], np.uint32)


@pytest.mark.parametrize("temperature", [0.0, 1.0, 50.0])
def test_only_what_is_allowed_is_chosen(temperature: float) -> None:
    logits = row_of(5, 1, 2, 9, *[8.0] * 40)  # ids from 32 on have no word, and so are not allowed
    row = SamplingRow(temperature=temperature, allowed=words(1, 2), logit_bias={3: 50, 40: 50})
    chosen = {one(logits, replace(row, seed=s)) for s in range(99)}
    assert chosen == ({2} if temperature == 0 else {1, 2})


def test_what_is_allowed_may_be_banned() -> None:
    row = SamplingRow(allowed=words(0, 1, 3), banned=ids(1))
    assert one(row_of(0, 9, 9, 2), row) == 3
    with pytest.raises(RequestError, match="every token is banned"):
        one(row_of(0, 9), SamplingRow(allowed=words(1), banned=ids(1)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_logit_that_is_no_finite_number_is_an_error(bad: float, temperature: float) -> None:
    with pytest.raises(NumericalError, match="not a finite number"):
        one(row_of(0, bad, 1), SamplingRow(temperature=temperature))


def test_nothing_left_to_choose_is_an_error() -> None:
    with pytest.raises(RequestError, match="every token is banned"):
        one(row_of(0, 1), SamplingRow(banned=ids(0, 1)))


def test_repetition_penalty_sees_prompt_and_output_once_each() -> None:
    row = SamplingRow(repetition_penalty=2.0, prompt=ids(0, 0, 3), output=ids(1, 1))
    x = process_logits(row_of(4, -4, 1, 0), row, 4)
    assert x.tolist() == [2, -8, 1, 0]


def test_presence_and_frequency_see_the_output_alone() -> None:
    row = SamplingRow(presence_penalty=1.0, frequency_penalty=0.25, prompt=ids(0, 0), output=ids(1, 1, 2))
    x = process_logits(row_of(4, 4, 4, 4), row, 4)
    assert x.tolist() == [4, 2.5, 2.75, 4]


def test_processors_run_in_the_documented_order() -> None:
    row = SamplingRow(
        temperature=2.0,
        logit_bias={0: 2.0},
        repetition_penalty=2.0,
        frequency_penalty=0.5,
        presence_penalty=0.25,
        output=ids(0, 0),
    )
    # (((6 + 2) / 2) - 0.5 * 2 - 0.25) / 2
    assert process_logits(row_of(6, 0), row, 2)[0] == 1.375


def test_the_given_logits_are_not_written_to() -> None:
    logits = row_of(1, 2, 3)
    logits.flags.writeable = False
    one(logits, SamplingRow(temperature=0.5, banned=ids(0), repetition_penalty=2, output=ids(1)))


def test_top_k_keeps_ties_with_the_last() -> None:
    kept, _ = keep_candidates(row_of(1, 3, 2, 2, 0), SamplingRow(temperature=1, top_k=2))
    assert kept.tolist() == [1, 2, 3]


@pytest.mark.parametrize("cut", [{"top_p": 0.0}, {"top_p": 1e-9}, {"min_p": 1.0}, {"top_k": 1}])
def test_the_top_token_always_stays(cut: dict[str, Any]) -> None:
    kept, weights = keep_candidates(row_of(1, 3, 2), SamplingRow(temperature=1, **cut))
    assert (kept.tolist(), weights.tolist()) == ([1], [UNIT])


def test_a_prefix_that_holds_exactly_p_is_enough() -> None:
    kept, _ = keep_candidates(row_of(1, 1, 1, 1), SamplingRow(temperature=1, top_p=0.5))
    assert kept.tolist() == [0, 1]


@pytest.mark.parametrize(("u", "token"), [(0.0, 0), (0.4999, 0), (0.5, 2), (1 - 2.0**-53, 2)])
def test_the_token_is_the_first_whose_cumulative_weight_exceeds_u(
    monkeypatch: pytest.MonkeyPatch, u: float, token: int
) -> None:
    monkeypatch.setattr("qanat.backends.reference.sampling.uniform", lambda *_: u)
    assert one(row_of(1, -9, 1), SamplingRow(temperature=1, top_k=2)) == token


def test_candidates_come_by_descending_logit_then_id() -> None:
    kept, _ = keep_candidates(row_of(1, 3, 2, 3, 2), SamplingRow(temperature=1))
    assert kept.tolist() == [1, 3, 2, 4, 0]


@given(st.lists(st.integers(-40, 40), min_size=1, max_size=30), st.data())
@settings(max_examples=200, deadline=None)
def test_cuts_agree_with_their_definitions(steps: list[int], data: st.DataObject) -> None:
    x = np.array(steps, np.float32) / 8
    k = data.draw(st.integers(0, len(steps) + 2))
    p = data.draw(st.floats(0.01, 1.0))
    m = data.draw(st.floats(0.0, 1.0))
    kept, _ = keep_candidates(x, SamplingRow(temperature=1, top_k=k, top_p=p, min_p=m))
    left = set(range(len(x)))
    if k:
        left = {i for i in left if sum(x > x[i]) < k}
    share = {i: math.exp(x[i]) for i in left}
    total = sum(share.values())
    order = sorted(left, key=lambda i: (-x[i], i))
    before = 0.0
    sure, maybe = set(), set()
    for i in order:
        if before < (p - 1e-9) * total:
            sure.add(i)
        if before < (p + 1e-9) * total:
            maybe.add(i)
        before += share[i]
    top = float(x.max())
    sure = {i for i in sure if math.exp(x[i] - top) > m + 1e-9}
    maybe = {i for i in maybe if math.exp(x[i] - top) >= m - 1e-9}
    assert sure <= set(kept.tolist()) <= maybe | {order[0]}


def test_defined_exp_is_exp_to_the_last_place() -> None:
    x = np.concatenate([[0.0, -1e-300, -708.0, -745.0, -746.0, -1e6], -np.geomspace(1e-9, 700, 5000)])
    exact = np.array([math.exp(v) for v in x])
    ours = defined_exp(x)
    normal = exact > 1e-300
    assert np.abs(ours[normal] / exact[normal] - 1).max() < 3e-16
    assert np.abs(ours[~normal] - exact[~normal]).max() < 1e-307
    assert ours[0] == 1.0
    assert ours[5] == 0.0


def test_weights_are_whole_parts_of_the_largest_and_their_sum_is_exact() -> None:
    x = row_of(0, -np.log(2), -1, -31.1, -31.3, -1e30, -np.inf)
    weights = weigh(x, x[0])
    assert weights.tolist()[:2] == [UNIT, round(UNIT * math.exp(float(x[1])))]
    assert weights[3] == 1
    assert not weights[4:].any()
    assert int(UNIT) * MOST_IDS < 2**63


def test_what_weighs_nothing_is_never_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qanat.backends.reference.sampling.uniform", lambda *_: 1 - 2.0**-53)
    assert one(row_of(-50, 0, -60), SamplingRow(temperature=1)) == 1


@pytest.mark.parametrize(
    "cut", [{}, {"temperature": 0.6}, {"top_k": 5}, {"top_p": 0.8}, {"min_p": 0.15, "temperature": 2.0}]
)
def test_draws_follow_the_distribution(cut: dict[str, Any]) -> None:
    logits = np.random.default_rng(5).standard_normal(24).astype(np.float32) * 2
    row = SamplingRow(**{"temperature": 1.0, **cut})
    kept, weights = keep_candidates(process_logits(logits, row, 24), row)
    n = 3000
    rows = [SamplingRow(**{"temperature": 1.0, **cut, "seed": 11, "output_index": i}) for i in range(n)]
    drawn = [c.token for c in sample(np.tile(logits, (n, 1)), rows, 24)]
    assert set(drawn) <= set(kept.tolist())
    expected = weights / weights.sum() * n
    often = expected >= 5
    counts = np.array([drawn.count(i) for i in kept])
    chi2 = ((counts[often] - expected[often]) ** 2 / expected[often]).sum()
    freedom = max(1, int(often.sum()) - 1)
    assert chi2 < freedom + 5 * math.sqrt(2 * freedom)


def test_a_draw_depends_on_seed_choice_and_place_alone() -> None:
    logits = np.random.default_rng(1).standard_normal((64, 500)).astype(np.float32)
    rows = [
        SamplingRow(temperature=1.3, seed=i % 5, choice_index=i % 3, output_index=i, logprobs=2)
        for i in range(64)
    ]
    crowd = sample(logits, rows, 490)
    order = np.random.default_rng(2).permutation(64)
    shuffled = sample(logits[order], [rows[i] for i in order], 490)
    alone = [sample(logits[i : i + 1], [rows[i]], 490)[0] for i in range(64)]
    assert crowd == alone == [shuffled[list(order).index(i)] for i in range(64)]
    assert len({c.token for c in crowd}) > 30


def test_equal_processed_logits_give_the_equal_draw() -> None:
    logits = row_of(0.5, 1, 0.25, 0.75)
    doubled = logits * 2
    for i in range(50):
        plain = one(logits, SamplingRow(temperature=1.0, seed=3, output_index=i))
        assert plain == one(doubled, SamplingRow(temperature=2.0, seed=3, output_index=i))


def test_logprobs_are_of_the_raw_row_dead_rows_included() -> None:
    logits = row_of(1, 2, 0.5, 3, 2)
    row = SamplingRow(temperature=0.3, banned=ids(1), logit_bias={2: 9.0}, logprobs=3)
    choice = sample(logits[None], [row], 4)[0]
    log_total = math.log(sum(math.exp(v) for v in logits.tolist()))
    assert choice.token == 2
    assert choice.logprob == pytest.approx(0.5 - log_total, abs=1e-12)
    assert [i for i, _ in choice.top] == [3, 1, 0]
    assert [p for _, p in choice.top] == pytest.approx([v - log_total for v in (3, 2, 1)], abs=1e-12)


def test_logprobs_list_ties_by_lower_id_and_no_dead_row() -> None:
    choice = sample(row_of(2, 1, 2, 2, 2)[None], [SamplingRow(logprobs=2)], 4)[0]
    assert [i for i, _ in choice.top] == [0, 2]
    assert len(sample(row_of(2, 1, 7)[None], [SamplingRow(logprobs=20)], 2)[0].top) == 2
    assert sample(row_of(2, 1)[None], [SamplingRow()], 2)[0].logprob is None


def golden_cases() -> list[dict[str, Any]]:
    return list(json.loads(gzip.decompress((GOLDEN / "sampling.json.gz").read_bytes())))


def test_processors_equal_transformers_recorded_results() -> None:
    cases = golden_cases()
    assert len(cases) >= 100
    for case in cases:
        s = case["settings"]
        row = SamplingRow(
            **{k: s[k] for k in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")},
            logit_bias={int(i): b for i, b in s["logit_bias"].items()},
            banned=np.array(s["banned"], np.int32),
            prompt=np.array(case["tokens"][:6], np.int32),
            output=np.array(case["tokens"][6:], np.int32),
        )
        logits = (np.array(case["logits"]) / case["grain"]).astype(np.float32)
        x = process_logits(logits, row, len(logits))
        kept, _ = keep_candidates(x, row)
        # Which ids of a tie at a cut stay is left open by transformers (its sort is not stable).
        assert sorted(x[kept].tolist()) == sorted(case["values"]), case
        above = {i for i, v in zip(case["kept"], case["values"], strict=True) if v > min(case["values"])}
        assert above <= set(kept.tolist()), case
