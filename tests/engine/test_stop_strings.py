"""Stop texts in a text that comes in pieces."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from qanat.engine.stop_strings import StopStrings


def run(pieces: list[str], stops: list[str], *, include: bool = False) -> tuple[str, str | None, list[str]]:
    watcher = StopStrings(stops, include=include)
    shown = []
    for piece in pieces:
        shown.append(watcher.feed(piece))
        if watcher.matched:
            break
    shown.append(watcher.flush())
    return "".join(shown), watcher.matched, shown


def naive(text: str, stops: list[str], *, include: bool = False) -> tuple[str, str | None]:
    """Search the whole text: earliest start, then shortest."""
    found = [(text.find(stop), len(stop), stop) for stop in stops if stop in text]
    if not found:
        return text, None
    at, size, stop = min(found)
    return text[: at + size * include], stop


words = st.text("ab", min_size=1, max_size=4)


@given(
    st.lists(st.text("ab", max_size=4), max_size=12), st.lists(words, min_size=1, max_size=4), st.booleans()
)
@example(["abc", "x"], ["abcd", "bc"], False)  # a match waits for an earlier beginning
@example(["abc", "d"], ["abcd", "bc"], False)
def test_any_cut_of_the_text_gives_the_result_of_a_full_search(
    pieces: list[str], stops: list[str], include: bool
) -> None:
    text, matched, _ = run(pieces, stops, include=include)
    assert (text, matched) == naive("".join(pieces), stops, include=include)


@given(st.lists(st.text("abc", max_size=3), max_size=12), st.lists(words, min_size=1, max_size=3))
def test_only_a_possible_beginning_is_held_back(pieces: list[str], stops: list[str]) -> None:
    watcher = StopStrings(stops)
    whole, shown = "", ""
    for piece in pieces:
        whole += piece
        shown += watcher.feed(piece)
        if watcher.matched:
            break
        held = whole[len(shown) :]
        assert whole.startswith(shown)
        assert not held or any(len(held) < len(s) and s.startswith(held) for s in stops)


def test_text_held_back_for_a_possible_match_is_flushed_at_the_end() -> None:
    assert run(["so EN", "D"], ["END."]) == ("so END", None, ["so ", "", "END"])


def test_a_stop_text_over_three_pieces_is_found() -> None:
    assert run(["one\n", "Use", "r: two"], ["\nUser:"])[:2] == ("one", "\nUser:")


def test_include_keeps_the_stop_text_and_nothing_after() -> None:
    assert run(["a.b.c"], ["b."], include=True)[:2] == ("a.b.", "b.")


def test_without_stops_everything_passes_at_once() -> None:
    assert StopStrings([]).feed("abc") == "abc"


def test_a_longer_text_with_the_same_beginning_is_not_waited_for() -> None:
    watcher = StopStrings(["abc", "ab"])
    assert (watcher.feed("xab"), watcher.matched) == ("x", "ab")
