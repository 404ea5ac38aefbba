"""The figures of several engines are told as one."""

from __future__ import annotations

from dataclasses import fields, replace

from qanat.engine.stats import EngineStats, Waits, add_up

BOUNDS = len(Waits().counts)


def stats(by: int) -> EngineStats:
    """Every number is `by` times its place."""
    numbers = {field.name: by * place for place, field in enumerate(fields(EngineStats), start=1)}
    waits = Waits(tuple(by * place for place in range(BOUNDS)), by * 0.5)
    return replace(EngineStats(**numbers), first_token=waits, next_token=Waits())


def test_sums_add_up_figure_by_figure_and_waits_bound_by_bound() -> None:
    assert add_up([stats(1), stats(10), stats(100)]) == stats(111)
    assert add_up([stats(3)]) == stats(3)
