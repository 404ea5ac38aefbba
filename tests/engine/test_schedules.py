"""Whatever happens to the engine, each reply is the one that its request gets alone, and no state is lost."""

from __future__ import annotations

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.schedules import Schedule, examples

EVENTS = [
    "finished",
    "finished after a preemption",
    "a reply read again",
    "preempted for pages",
    "preempted by priority",
    "resumed from a snapshot",
    "resumed after a preemption",
    "evicted",
    "partial pages copied",
    "read by a leader",
    "cancelled",
    "DeadlineError",
    "PlannedError",
    "RequestError",
]


def test_any_schedule_gives_each_request_its_own_reply() -> None:
    run_state_machine_as_test(Schedule, settings=examples(200, 25))


def test_schedules_bring_about_what_they_are_meant_to_prove() -> None:
    Schedule.happened.clear()
    run_state_machine_as_test(Schedule, settings=examples(200, 25, derandomize=True, database=None))
    happened = Schedule.happened
    rare = {"resumed after a preemption": 1, "RequestError": 2}
    assert {e: happened[e] for e in EVENTS if happened[e] < rare.get(e, 10)} == {}


@pytest.mark.proof
def test_many_schedules() -> None:
    run_state_machine_as_test(Schedule, settings=examples(2000, 40))
