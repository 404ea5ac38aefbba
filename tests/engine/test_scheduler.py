"""Sequences join and leave the batch in any order; state is never mixed up, and all of it comes back."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qanat.engine.sampling_params import SamplingParams
from qanat.errors import RequestError
from qanat.model.batch import Batch
from qanat.model.ops import HeadOutput
from qanat.model.sampling import Choice, SamplingRow
from tests.engine.fake_model import (
    VOCAB,
    FakeModel,
    FakeOps,
    FakeState,
    alone,
    finish,
    logits_of,
    make,
    scheduler,
)
from tests.engine.fake_model import hash_of as state_of

PROMPTS = [
    [5],
    [1, 2, 3],
    list(range(1, 28)),
    [7] * 9,
    [3, 1, 4, 1, 5, 9, 2, 6],
    [8, 8],
    list(range(20, 1, -1)),
]


def test_greedy_follows_the_models_logits() -> None:
    expected: list[int] = []
    while len(expected) < 12:
        expected.append(int(np.argmax(logits_of(state_of([1, 2, 3, *expected]))[: VOCAB - 2])))
        if expected[-1] == 0:
            break
    assert alone([1, 2, 3]) == expected


@pytest.mark.parametrize("step_tokens", [1, 2, 5, 16, 500])
@pytest.mark.parametrize("slots", [1, 2, 7])
def test_a_crowd_gives_each_request_its_own_tokens(slots: int, step_tokens: int) -> None:
    params = SamplingParams(temperature=1.5, frequency_penalty=0.3, repetition_penalty=1.1)
    sequences = [make(p, params, seed=i) for i, p in enumerate(PROMPTS)]
    engine = scheduler(slots=slots, step_tokens=step_tokens)
    finish(engine, sequences)
    assert [s.output.tolist() for s in sequences] == [alone(p, params, seed=i) for i, p in enumerate(PROMPTS)]
    assert engine.idle


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_a_storm_of_arrivals_and_cancellations_leaves_everything_free_and_right(data: st.DataObject) -> None:
    storm(data)


@pytest.mark.proof
@given(st.data())
@settings(max_examples=400, deadline=None)
def test_many_storms(data: st.DataObject) -> None:
    storm(data)


def storm(data: st.DataObject) -> None:
    engine = scheduler(
        slots=data.draw(st.integers(1, 4)),
        pages=data.draw(st.integers(10, 24)),
        step_tokens=data.draw(st.integers(1, 9)),
    )
    params = SamplingParams(temperature=1.0)
    live, every = [], []
    for number in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["arrive", "arrive", "step", "step", "cancel"]))
        if action == "arrive":
            prompt = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=20))
            s = make(prompt, params, limit=data.draw(st.integers(1, 12)), seed=number)
            engine.submit([s])
            live.append(s)
            every.append((prompt, s, number))
        elif action == "cancel" and live:
            engine.cancel([live.pop(data.draw(st.integers(0, len(live) - 1)))])
        elif live:
            target = live[data.draw(st.integers(0, len(live) - 1))]
            known = target.output_len
            engine.advance(lambda s=target, n=known: s.done or s.output_len > n)
        engine.check_integrity()
    engine.advance(lambda: all(s.done for s in live))
    assert engine.idle
    for prompt, s, seed in every:
        expected = alone(prompt, params, limit=s.limit, seed=seed)
        got = s.output.tolist()
        assert got == expected[: len(got)]
        assert s.cancelled or got == expected


def test_a_long_prompt_does_not_stall_those_that_decode() -> None:
    model = FakeModel()
    engine = scheduler(model, step_tokens=8, pages=100)
    params = SamplingParams(temperature=0.0, ignore_eos=True)
    talker, reader = make([1, 2], params, limit=20), make(list(range(1, 28)) * 3, params, limit=1)
    engine.submit([talker])
    engine.advance(lambda: talker.output_len == 1)
    engine.submit([reader])
    engine.advance(lambda: reader.done)
    assert talker.output_len >= 1 + 81 // 7
    assert max(len(b.tokens) for b in model.batches) <= 8


def test_admission_is_first_come_first_served_and_waits_for_pages() -> None:
    engine = scheduler(slots=4, pages=8, page=4)
    params = SamplingParams(temperature=0.0, ignore_eos=True)
    first, large, small = (
        make([1] * 8, params, limit=12),
        make([2] * 12, params, limit=8),
        make([3], params, limit=2),
    )
    engine.submit([first, large, small])
    engine.advance(lambda: first.output_len == 3)
    assert (large.slot, small.slot) == (None, None)  # the small one would fit, but is not let past
    engine.advance(lambda: small.done)
    assert first.done
    engine.advance(lambda: large.done)
    assert engine.idle


def test_a_request_beyond_the_whole_pool_is_refused() -> None:
    with pytest.raises(RequestError, match="the state holds 160"):
        scheduler().submit([make([1] * 150, limit=11)])


def test_pages_are_taken_as_they_are_needed() -> None:
    engine = scheduler(pages=40, page=4)
    s = make([1] * 5, SamplingParams(temperature=0.0, ignore_eos=True), limit=100)
    engine.submit([s])
    engine.advance(lambda: s.output_len == 1)
    assert (len(s.pages), engine.pages.free) == (2, 38)
    assert engine.pages.available == 40 - engine.pages.pages_for(105)


def test_a_failure_reaches_its_sequences_and_frees_them() -> None:
    model = FakeModel(fail_at=3)
    engine = scheduler(model, slots=2)
    a, b, waiting = make([1, 2]), make([3]), make([4])
    finish(engine, [a, b, waiting])
    assert isinstance(a.error, ValueError)
    assert engine.idle


def test_an_interrupt_ends_the_step_and_frees_everything() -> None:
    model = FakeModel(fail_at=2, error=KeyboardInterrupt())
    engine = scheduler(model)
    a, b = make([1, 2], limit=30), make([3], limit=30)
    with pytest.raises(KeyboardInterrupt):
        finish(engine, [a, b])
    assert isinstance(a.error, RequestError)
    assert engine.idle
    model.fail_at = None
    again = make([1, 2])
    finish(engine, [again])
    assert again.output.tolist() == alone([1, 2])


def test_a_cancellation_in_the_middle_of_a_step_waits_for_its_end() -> None:
    # As when the garbage collector closes a forgotten stream while the model computes.
    a, b, waiting = make([1, 2], limit=30), make([3], limit=30), make([4])

    class Interrupting(FakeModel):
        def forward(self, batch: Batch, state: FakeState) -> HeadOutput[Any]:
            if len(self.batches) == 3:
                engine.cancel([b, waiting])
                assert b.slot is not None  # still in use by this very step
            return super().forward(batch, state)

    engine = scheduler(Interrupting(), slots=2)
    finish(engine, [a, b, waiting])
    assert (b.cancelled, waiting.cancelled, waiting.output_len) == (True, True, 0)
    assert a.output.tolist() == alone([1, 2], limit=30)
    assert engine.idle


def test_threads_share_the_batch_and_all_get_their_own_tokens() -> None:
    engine = scheduler(slots=3)
    params = SamplingParams(temperature=1.0)
    results: dict[int, list[int]] = {}

    def work(number: int) -> None:
        for turn in range(4):
            s = make(PROMPTS[number], params, seed=turn)
            finish(engine, [s])
            results[number * 10 + turn] = s.output.tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(PROMPTS))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    for key, tokens in results.items():
        assert tokens == alone(PROMPTS[key // 10], params, seed=key % 10)
    assert len(results) == 4 * len(PROMPTS)
    assert engine.idle


def test_min_tokens_keeps_stop_tokens_away_and_ignore_eos_goes_on() -> None:
    eager = SamplingParams(temperature=0.0, logit_bias={0: 100.0})
    assert alone([1], eager) == [0]
    held = SamplingParams(temperature=0.0, logit_bias={0: 100.0}, min_tokens=5)
    tokens = alone([1], held)
    assert tokens[-1] == 0
    assert 0 not in tokens[:5]
    assert len(tokens) == 6
    assert alone([1], SamplingParams(temperature=0.0, logit_bias={0: 100.0}, ignore_eos=True)) == [0] * 12


def test_stop_texts_end_a_reply_and_are_left_out() -> None:
    bias = {i: 50.0 * (i == 5) for i in range(VOCAB - 2)}
    plain = SamplingParams(temperature=0.0, logit_bias=bias, stop=["FFF"])
    s = make([1], plain)
    finish(scheduler(), [s])
    assert (s.output.tolist(), s.finish_reason) == ([5, 5, 5], "stop")
    assert "".join(p.text for p in s.pieces) == ""
    late = make(
        [1], SamplingParams(temperature=0.0, logit_bias=bias, stop=["FF"], min_tokens=3, include_stop=True)
    )
    finish(scheduler(), [late])
    assert "".join(p.text for p in late.pieces) == "FFFF"  # looked for from the third token on
    assert late.finish_reason == "stop"


def test_the_limit_wins_when_nothing_stops() -> None:
    s = make([1], SamplingParams(temperature=0.0, ignore_eos=True), limit=3)
    finish(scheduler(), [s])
    assert (s.output_len, s.finish_reason) == (3, "length")


def test_a_stop_text_waiting_for_an_earlier_beginning_counts_at_the_end() -> None:
    s = make([1], SamplingParams(temperature=0.0, stop=["BCDE", "CD"]), limit=3)
    for token in (1, 2, 3):  # "BCD": "CD" is complete, but "BCDE" could still come
        assert not s.done
        s.accept(Choice(token))
    assert ("".join(p.text for p in s.pieces), s.finish_reason) == ("B", "stop")


def test_the_sampler_sees_prompt_and_output_of_its_own_sequence() -> None:
    seen: list[SamplingRow] = []

    class Recording(FakeOps):
        def sample(self, logits: Any, rows: Any, live_vocab: int) -> list[Choice]:
            seen.extend(replace(r, prompt=r.prompt.copy(), output=r.output.copy()) for r in rows)
            return super().sample(logits, rows, live_vocab)

    params = SamplingParams(temperature=1.0, presence_penalty=0.5, ignore_eos=True)
    sequences = [make(p, params, seed=i, limit=20) for i, p in enumerate(PROMPTS)]
    finish(scheduler(FakeModel(Recording()), step_tokens=5), sequences)
    for seed, s in enumerate(sequences):
        rows = [row for row in seen if row.seed == seed]
        assert [row.output_index for row in rows] == list(range(20))
        for n, row in enumerate(rows):
            assert row.prompt.tolist() == PROMPTS[seed]
            assert row.output.tolist() == s.output[:n].tolist()


def test_a_presence_penalty_forbids_repeats_of_the_reply_but_not_of_the_prompt() -> None:
    everything = list(range(VOCAB))
    tokens = alone(
        everything, SamplingParams(temperature=0.0, presence_penalty=100.0, ignore_eos=True), limit=20
    )
    assert len(set(tokens)) == 20
    plain = alone(everything, SamplingParams(temperature=0.0, ignore_eos=True), limit=1)
    assert tokens[:1] == plain
