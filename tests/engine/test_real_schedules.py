"""Real models keep their replies through preemption, snapshots and shared pages, bit for bit."""

from __future__ import annotations

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.real_schedules import Pocket, RealSchedule, Tiny, TinyCpu
from tests.engine.schedules import examples


@pytest.mark.parametrize(("kind", "count"), [(Tiny, 10), (TinyCpu, 15), (Pocket, 15)])
def test_a_real_model_gives_each_request_its_own_reply(kind: type[RealSchedule], count: int) -> None:
    run_state_machine_as_test(kind, settings=examples(count, 15))


@pytest.mark.proof
@pytest.mark.parametrize(("kind", "count"), [(Tiny, 100), (TinyCpu, 200), (Pocket, 200)])
def test_many_schedules_of_real_models(kind: type[RealSchedule], count: int) -> None:
    run_state_machine_as_test(kind, settings=examples(count, 25))
