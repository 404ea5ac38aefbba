"""Where snapshots of a prompt are taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.engine.marks import EVERY, snapshot_marks
from tests.engine.schedule_requests import wanted_marks

TURN = (7, 8)


@pytest.mark.parametrize(
    ("prompt", "choices", "expected"),
    [
        ([1, 7, 8, 2, 3], 1, [3]),
        ([1, 7, 8, 2, 7, 8, 3], 1, [6]),  # the last one
        ([1, 7, 8], 1, []),  # at the very end: the reply's own snapshot is as good
        ([7, 8, 2, 7, 8], 1, []),
        ([7, 8, 2], 1, [2]),
        ([1, 2, 3], 1, []),
        ([1, 2, 3], 2, [2]),
        ([7, 8, 3], 2, [2]),
        ([7, 8, 3, 4], 5, [2, 3]),
        ([1], 3, []),
        ([7], 1, []),
    ],
)
def test_marks_are_behind_the_turn_and_before_the_last_token(
    prompt: list[int], choices: int, expected: list[int]
) -> None:
    assert snapshot_marks(prompt, TURN, choices=choices) == expected


def test_a_long_prompt_is_kept_every_so_often() -> None:
    assert snapshot_marks([1] * (2 * EVERY), TURN) == [EVERY]
    assert snapshot_marks([1] * (2 * EVERY + 1), TURN) == [EVERY, 2 * EVERY]


def test_a_model_without_turns_has_no_mark_for_them() -> None:
    assert snapshot_marks([1, 2, 3], ()) == []


@given(st.lists(st.sampled_from([1, 7, 8]), min_size=1, max_size=12), st.integers(1, 2))
def test_marks_ascend_within_the_prompt(prompt: list[int], choices: int) -> None:
    assert snapshot_marks(prompt, TURN, choices=choices) == sorted(wanted_marks(prompt, TURN, choices))
