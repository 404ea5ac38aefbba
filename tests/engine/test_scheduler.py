"""Sequences join and leave the batch in any order; state is never mixed up, and all of it comes back."""

from __future__ import annotations

import threading
import weakref
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qanat.engine.sampling_params import SamplingParams
from qanat.errors import DeadlineError, QueueFullError, RequestError
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


def test_nobody_is_let_past_whoever_waits_for_pages() -> None:
    engine = scheduler(slots=4, pages=8, page=4)
    params = SamplingParams(temperature=0.0, ignore_eos=True)
    first, large, small = (
        make([1] * 16, params, limit=12),
        make([2] * 12, params, limit=8),
        make([3], params, limit=2),
    )
    engine.submit([first, large, small])
    engine.advance(lambda: first.output_len == 3)
    assert (large.slot, small.slot) == (None, None)  # the small one would fit, but is not let past
    engine.advance(lambda: small.done)
    assert first.done
    engine.advance(lambda: large.done)
    assert engine.stats().preemptions == 0
    assert engine.idle


def test_when_pages_run_out_the_last_in_rank_waits_again_and_repeats_itself() -> None:
    engine = scheduler(slots=3, pages=8, page=4)
    params = SamplingParams(temperature=1.0, frequency_penalty=0.5, ignore_eos=True)
    sequences = [make([i] * 5, params, limit=20, seed=i) for i in (1, 2, 3)]
    engine.submit(sequences)
    engine.advance(lambda: engine.stats().preemptions == 1)
    assert [s.slot is None for s in sequences] == [False, False, True]
    engine.advance(lambda: all(s.done for s in sequences))
    assert [s.output.tolist() for s in sequences] == [
        alone([i] * 5, params, limit=20, seed=i) for i in (1, 2, 3)
    ]
    assert engine.idle


def test_snapshots_go_before_anybody_has_to_wait() -> None:
    engine = scheduler(slots=2, pages=10, page=4, snapshots=4)
    params = SamplingParams(temperature=0.0, ignore_eos=True)
    finish(engine, [make([9] * 8, params, limit=2)])
    finish(engine, [make([8] * 8, params, limit=2)])
    assert engine.stats().snapshots == 2
    finish(engine, [make([i] * 4, params, limit=16) for i in (1, 2)])
    assert engine.stats().preemptions == 0
    assert engine.stats().snapshots == 2  # their own


def test_a_request_that_is_cancelled_while_its_step_fails_counts_once() -> None:
    class Failing(FakeModel):
        def forward(self, batch: Batch, state: FakeState) -> HeadOutput[Any]:
            engine.cancel([gone])
            raise ValueError

    engine = scheduler(Failing())
    gone, failed = make([1]), make([2])
    finish(engine, [gone, failed])
    stats = engine.stats()
    assert (stats.cancelled, stats.failed, stats.finished, stats.expired) == (1, 1, 0, 0)


def test_a_prefix_that_is_known_already_makes_no_other_snapshot_go() -> None:
    engine = scheduler(slots=1, snapshots=3)
    params = SamplingParams(temperature=0.0, ignore_eos=True)
    finish(engine, [make([8] * 9, params, limit=1)])
    finish(engine, [make([7] * 9, params, limit=1, marks=[3])])
    known = {snapshot.key for snapshot in engine.memory.cache}
    assert len(known) == 3
    again = make([7] * 9, replace(params, prompt_logprobs=0), limit=1, marks=[3])  # computes all of it
    finish(engine, [again])
    assert again.cached == 0
    assert {snapshot.key for snapshot in engine.memory.cache} == known


def test_the_higher_priority_goes_first_and_takes_the_place_of_the_lowest() -> None:
    engine = scheduler(slots=2)
    params = SamplingParams(temperature=1.0, ignore_eos=True)
    low, lower, high = (make([i], params, limit=9, seed=i, priority=p) for i, p in ((1, 0), (2, -3), (3, 5)))
    waiting, equal = make([4], params, seed=4, priority=1), make([5], params, seed=5)
    engine.submit([low, lower])
    engine.advance(lambda: low.output_len == 3)
    engine.submit([equal, waiting, high])
    engine.advance(lambda: high.output_len == 1)
    assert [s.slot is None for s in (low, lower, equal)] == [True, True, True]
    assert [s.slot is None for s in (waiting, high)] == [False, False]
    done: list[object] = []
    everyone = [low, lower, equal, waiting, high]

    def ended() -> bool:
        done.extend(s for s in everyone if s.done and s not in done)
        return len(done) == len(everyone)

    engine.advance(ended)
    assert done.index(low) < done.index(lower)
    assert done.index(low) < done.index(equal)  # by arrival
    for i, s in enumerate((low, lower, high, waiting, equal), 1):
        assert s.output.tolist() == alone([i], params, limit=s.limit, seed=i)
    assert engine.idle


def test_an_equal_priority_takes_nobodys_place() -> None:
    engine = scheduler(slots=1)
    first, second = make([1], limit=9, priority=2), make([2], priority=2)
    engine.submit([first])
    engine.advance(lambda: first.output_len == 1)
    engine.submit([second])
    engine.advance(lambda: second.done)
    assert first.done
    assert engine.stats().preemptions == 0


def test_what_ended_long_before_its_deadline_is_forgotten() -> None:
    engine = scheduler()
    first = make([5], SamplingParams(temperature=0, ignore_eos=True), limit=120, deadline=1e11)
    engine.submit([first])
    ended = []
    for _ in range(80):
        s = make([1, 2], limit=1, deadline=1e12)
        finish(engine, [s])
        ended.append(weakref.ref(s))
        del s
    assert not first.done
    assert sum(ref() is not None for ref in ended) < 50
    late = make([1], limit=1, deadline=0.0)  # what remains is still kept in order
    finish(engine, [late])
    assert isinstance(late.error, DeadlineError)


def test_a_deadline_ends_those_that_wait_and_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(
        "qanat.engine.scheduler.time", SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0])
    )
    engine = scheduler(slots=1)
    params = SamplingParams(temperature=0.0, ignore_eos=True)
    running, waiting, later = (make([i], params, deadline=10.0 * i) for i in (2, 1, 3))
    engine.submit([running, waiting, later])
    engine.advance(lambda: running.output_len == 2)
    now[0] = 10.0
    engine.advance(lambda: waiting.done)
    assert isinstance(waiting.error, DeadlineError)
    assert not running.done
    written = running.output_len
    now[0] = 25.0
    engine.advance(lambda: running.done)
    assert isinstance(running.error, DeadlineError)
    assert f"({written} tokens were written)" in str(running.error)
    engine.advance(lambda: later.done)
    assert later.output.tolist() == alone([3], params)
    stats = engine.stats()
    assert (stats.expired, stats.finished, stats.failed) == (2, 1, 0)
    assert engine.idle


@pytest.mark.parametrize("most", [0, 2])
def test_a_full_queue_refuses_all_of_a_request_or_nothing(most: int) -> None:
    engine = scheduler(slots=2, max_waiting=most)
    params = SamplingParams(temperature=0.0, ignore_eos=True)
    with pytest.raises(RequestError, match=f"{most + 3} replies were asked for at once, but 2 can run"):
        engine.submit([make([1]) for _ in range(most + 3)])  # to try again later would not help
    assert engine.idle
    sequences = [make([i + 1], params) for i in range(most + 2)]
    engine.submit(sequences)  # as many as may wait, and as can run
    with pytest.raises(QueueFullError, match=f"sequences wait already, of at most {most}: try again later"):
        engine.submit([make([1])])
    engine.advance(lambda: all(s.done for s in sequences))
    finish(engine, [make([1]), make([2])])
    assert engine.idle


def test_statistics_are_the_sums_of_the_records() -> None:
    model = FakeModel()
    engine = scheduler(model, slots=3, pages=12, page=4, snapshots=4)
    params = SamplingParams(temperature=0.0, ignore_eos=True)
    sequences = [make([i % 3 + 1] * 9, params, limit=10, marks=[5]) for i in range(6)]
    gone = make([9] * 9, params)
    engine.submit([*sequences, gone])
    engine.cancel([gone])
    engine.advance(lambda: all(s.done for s in sequences))
    stats, records = engine.stats(), engine.records()
    assert stats.steps == len(records) == len(model.batches)
    for name in ("prompt_tokens", "scheduling", "computing", "sampling"):
        assert getattr(stats, name) == pytest.approx(sum(getattr(r, name) for r in records))
    assert stats.output_tokens == sum(r.chosen for r in records) == 60
    assert [r.prompt_tokens + r.decoded for r in records] == [len(b.tokens) for b in model.batches]
    assert [r.running >= r.chosen > 0 or r.chosen == 0 for r in records] == [True] * len(records)
    assert stats.preemptions > 0
    finish(engine, [make([8] * 9, params, limit=2, marks=[5])])
    finish(engine, [again := make([8] * 9, params, limit=2)])
    assert again.cached == 5
    assert engine.stats().cached_tokens == stats.cached_tokens + 5
    stats = engine.stats()
    assert (stats.finished, stats.cancelled, stats.failed, stats.expired) == (8, 1, 0, 0)
    assert (stats.running, stats.waiting, stats.pages) == (0, 0, 12)
    assert stats.snapshots == len(engine.memory.cache)
    assert stats.free_pages == engine.memory.pages.free


def test_a_request_beyond_the_whole_pool_is_refused() -> None:
    with pytest.raises(RequestError, match="the state holds 160"):
        scheduler().submit([make([1] * 150, limit=11)])


def test_pages_are_taken_as_they_are_needed() -> None:
    engine = scheduler(pages=40, page=4)
    s = make([1] * 5, SamplingParams(temperature=0.0, ignore_eos=True), limit=100)
    engine.submit([s])
    engine.advance(lambda: s.output_len == 1)
    assert (len(s.pages), engine.memory.pages.free) == (2, 38)


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


@pytest.mark.parametrize("sizes", [{}, {"pages": 12, "snapshots": 3}], ids=["roomy", "tight"])
def test_threads_share_the_batch_and_all_get_their_own_tokens(sizes: dict[str, int]) -> None:
    engine = scheduler(slots=3, debug=True, **sizes)
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
