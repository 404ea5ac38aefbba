"""How long replies wait for their first token and for each next, and what part of the memory is theirs."""

from __future__ import annotations

import time

from qanat.engine import LLM, SamplingParams
from qanat.engine.stats import WAIT_BOUNDS, StepLog


def test_every_token_is_counted_once_as_the_first_or_a_next() -> None:
    llm = LLM("pocket", backend="reference", max_batch=2)
    begin = time.perf_counter()
    params = SamplingParams(max_tokens=5, ignore_eos=True, n=3)
    replies = llm.generate(["Once", "Twice"], params)
    took = time.perf_counter() - begin
    assert len(replies) == 2
    stats = llm.stats()
    assert sum(stats.first_token.counts) == 6
    assert sum(stats.next_token.counts) == 6 * 4
    assert 0 < stats.next_token.seconds <= 6 * took
    # Two run at a time, so the last two wait until others are done.
    assert stats.first_token.seconds > stats.next_token.seconds / 24 * 3
    assert stats.first_token.seconds <= 6 * took


def test_waits_are_told_apart_at_their_bounds() -> None:
    log = StepLog()
    for seconds in (0.0, WAIT_BOUNDS[0], WAIT_BOUNDS[0] * 1.01, WAIT_BOUNDS[-1], WAIT_BOUNDS[-1] * 2):
        log.token(seconds, first=True)
    now = {"running": 0, "waiting": 0, "snapshots": 0, "free_pages": 0, "held_pages": 0, "pages": 0}
    waits = log.total(**now).first_token
    assert waits.counts[:2] == (2, 1)
    assert waits.counts[-2:] == (1, 1)
    assert sum(waits.counts) == 5


def test_pages_of_snapshots_are_not_held() -> None:
    llm = LLM("pocket", backend="reference")
    chunks = llm.generate("Once upon " * 40, SamplingParams(max_tokens=20, ignore_eos=True), stream=True)
    next(iter(chunks))
    during = llm.stats()
    list(chunks)
    after = llm.stats()
    assert 0 < during.held_pages <= during.pages - during.free_pages
    assert (after.held_pages, after.snapshots > 0) == (0, True)
    assert after.free_pages < after.pages
