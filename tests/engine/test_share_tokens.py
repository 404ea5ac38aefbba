"""A step's tokens are shared out: all of the budget at most, and something for everybody."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qanat.engine.batch_builder import share_tokens
from qanat.engine.sequence import Sequence
from tests.engine.fake_model import make


def standing(length: int, computed: int = 0, marks: tuple[int, ...] = ()) -> Sequence:
    s = make([1] * length, marks=marks)
    s.computed = computed
    return s


SEQUENCES = st.builds(
    lambda left, computed, mark: standing(left + computed, computed, (computed + mark,)),
    st.integers(1, 90),
    st.integers(0, 30),
    st.integers(0, 40),
)


@given(st.lists(SEQUENCES, min_size=1, max_size=9), st.integers(0, 60), st.integers(1, 40))
def test_everybody_gets_a_token_and_nobody_too_many(running: list[Sequence], more: int, mixed: int) -> None:
    budget = len(running) + more
    work = share_tokens(running, budget, mixed)
    assert [w.sequence for w in work] == running
    assert all(1 <= w.count <= w.sequence.next_chunk for w in work)
    assert sum(w.count for w in work) <= budget
    readers = [w for w in work if w.sequence.missing > 1]
    if len(readers) < len(work):
        assert sum(w.count for w in readers) <= max(mixed, len(readers))


@given(st.lists(SEQUENCES, min_size=1, max_size=9), st.integers(1, 40))
def test_whoever_is_first_gets_half_of_what_can_be_shared(running: list[Sequence], more: int) -> None:
    work = share_tokens(running, len(running) + more, mixed=1000)
    first = next((w for w in work if w.sequence.missing > 1), None)
    if first is not None:
        assert first.count >= min(first.sequence.next_chunk, 1 + more // 2)


def counts(running: list[Sequence], budget: int) -> list[int]:
    return [w.count for w in share_tokens(running, budget, mixed=20)]


def test_a_short_prompt_is_not_stalled_by_long_ones() -> None:
    assert counts([standing(500), standing(500), standing(9)], 63) == [42, 12, 9]
    assert counts([standing(500), standing(30)], 200) == [170, 30]


def test_prompts_are_read_in_small_pieces_beside_those_that_decode() -> None:
    assert counts([standing(500), standing(5, 4), standing(8, 7)], 200) == [20, 1, 1]


def test_a_tight_budget_leaves_nobody_out() -> None:
    assert counts([standing(50), standing(60), standing(5, 4)], 3) == [1, 1, 1]
    assert counts([standing(50), standing(60)], 2) == [1, 1]


def test_a_chunk_ends_at_a_mark() -> None:
    assert counts([standing(50, marks=(7, 30))], 100) == [7]
    assert counts([standing(50, 7, marks=(7, 30))], 100) == [23]
    assert counts([standing(50, 30, marks=(7, 30))], 100) == [20]
