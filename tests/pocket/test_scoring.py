"""The scores of the built-in model: what counts as right, and what the table makes of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from qanat import SamplingParams
from tools.pocket.corpus import Fragments, Maker
from tools.pocket.corpus.stories import story
from tools.pocket.evaluate import rows, verdicts
from tools.pocket.scoring.cases import Case, cases_of, held_out_cases
from tools.pocket.scoring.judges import equal, story_is_sound
from tools.pocket.scoring.replies import Speaker
from tools.pocket.scoring.table import (
    BARS,
    BEGIN,
    END,
    Report,
    Row,
    Stories,
    card_table,
    fill_card,
    text_table,
)

FRAGMENTS = Fragments(first=("ka", "lum", "s"), capital=("Be", "T"), inner=("ri", "on", "x"))
SOUND = (
    "Once upon a time there was a shy robot named Lumri. One day, Lumri could not sleep. "
    "Luckily, Nora sang a soft song until the moon came out. The robot was happy ever after."
)
ENOUGH = Stories(samples=100, different=40, sound=97.0)


@pytest.mark.parametrize("held_out", [False, True])
def test_every_story_of_the_corpus_is_sound(held_out: bool) -> None:
    maker = Maker(random.Random(1), FRAGMENTS, held_out)
    for _ in range(300):
        [case] = cases_of([story(maker)], [], False, "story")
        assert case.right(case.expected, case.expected), case.expected


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("sleep", "slerp"),  # a word that is none
        ("Lumri could", "Lumra could"),  # another name for the hero
        ("Nora", "Norax"),  # a friend nobody is called
        ("a shy robot", "a shy dragon"),  # not the thing that was asked for
        ("ever after.", "ever after"),  # no end
        ("moon", "mo\ufffdn"),
        (" The robot was happy ever after.", " the robot was happy ever after."),
        ("One day, Lumri could not sleep. Luckily, Nora sang a soft song until the moon came out. ", ""),
        ("named Lumri", "named robot7"),
    ],
)
def test_a_broken_story_is_refused(right: str, wrong: str) -> None:
    assert story_is_sound(SOUND, "robot")
    assert right in SOUND
    assert not story_is_sound(SOUND.replace(right, wrong), "robot")


def test_an_invented_thing_may_be_told_about_when_it_was_asked_for() -> None:
    assert story_is_sound(SOUND.replace("robot", "kaonx"), "kaonx")
    assert not story_is_sound(SOUND.replace("robot", "kaonx"), "robot")


def test_a_reply_is_right_only_as_a_whole() -> None:
    assert equal("12 + 30 = 42", "12 + 30 = 42")
    cases = [Case("addition", [{"role": "user", "content": "12+30"}], "12 + 30 = 42")] * 4
    said = ["12 + 30 = 42", "12 + 30 = 43", "12 + 30 = 42 [no end]", "42"]
    assert verdicts(cases, said) == {"addition": [True, False, False, False]}


def test_wrong_replies_are_shown_as_often_as_asked(capsys: pytest.CaptureFixture[str]) -> None:
    cases = [Case("spell", [{"role": "user", "content": "Spell ox."}], "o x")] * 3
    verdicts(cases, ["o s"] * 3, show=2)
    assert capsys.readouterr().out.count("Spell ox.") == 2


def test_rows_hold_the_share_of_right_replies() -> None:
    assert rows({"json": [True, False]}, {"json": [True, True]}) == [Row("json", 50.0, 100.0, 2)]


def test_a_bar_is_reached_at_its_figure_and_missed_below_it() -> None:
    assert Row("json", 98.0, 98.0, 200).reached
    assert not Row("json", 97.5, 100.0, 200).reached
    assert Row("new wordings: identity", 1.0, 1.0, 60).reached


def test_thinking_may_cost_three_points() -> None:
    assert Row("json", 100.0, 97.0, 200).holds_thinking
    assert not Row("json", 100.0, 96.5, 200).holds_thinking
    assert Row("new wordings: identity", 90.0, 10.0, 60).holds_thinking


@pytest.mark.parametrize(
    ("row", "stories", "reached"),
    [
        (Row("story", 97.0, 97.0, 200), ENOUGH, True),
        (Row("story", 96.5, 97.0, 200), ENOUGH, False),
        (Row("story", 99.0, 95.5, 200), ENOUGH, False),
        (Row("story", 97.0, 97.0, 200), Stories(100, 39, 97.0), False),
    ],
)
def test_a_report_reaches_its_bars_only_with_all_of_them(row: Row, stories: Stories, reached: bool) -> None:
    report = Report([row], stories)
    assert report.reached == reached
    assert report.as_json()["reached"] == reached
    assert ("MISSED" not in text_table(report)) == reached
    assert ("**" not in card_table(report)) == reached


def test_every_group_of_the_evaluation_but_the_new_wordings_has_a_bar() -> None:
    maker = Maker(random.Random(2), FRAGMENTS, held_out=True)
    assert {case.group for case in held_out_cases(maker, 2, thinking=True)} == set(BARS)


def test_loss_and_first_drafts_are_told_where_they_were_measured() -> None:
    bare, full = Report([], ENOUGH), Report([], ENOUGH, loss=0.0712, acceptance=83.25)
    assert full.reached
    for table in (text_table, card_table):
        assert not any(figure in table(bare) for figure in ("0.071", "83.2", "loss", "drafts"))
        assert all(figure in table(full) for figure in ("0.071", "83.2", "loss", "drafts"))
    assert (full.as_json()["held_out_loss"], full.as_json()["mtp_acceptance"]) == (0.0712, 83.25)


def test_the_card_changes_only_between_its_marks(tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    card.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    report = Report([Row("json", 97.0, 99.5, 200)], ENOUGH)
    for _ in range(2):  # again gives the same
        fill_card(card, report)
        assert card.read_text(encoding="utf-8") == f"before\n{BEGIN}\n{card_table(report)}\n{END}\nafter\n"
    assert "| json | 200 | 98 % | **97.0 %** | 99.5 % |" in card.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["no marks", BEGIN, f"{END} {BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_card_without_its_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    card = tmp_path / "README.md"
    card.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="must hold the marks"):
        fill_card(card, Report([], ENOUGH))
    assert card.read_text(encoding="utf-8") == text


def test_replies_come_in_the_order_of_their_cases_from_several_processes_too() -> None:
    cases = [Case("", [{"role": "user", "content": text}], "") for text in ("Hello!", "Who are you?", "3+4")]
    alone = Speaker("pocket").replies(cases, thinking=True)
    assert len(set(alone)) == 3
    assert not any("think" in text for text in alone)
    assert Speaker("pocket", jobs=2).replies(cases, thinking=True) == alone


def test_a_reply_that_does_not_end_is_marked() -> None:
    case = Case("", [{"role": "user", "content": "Who are you?"}], "")
    [said] = Speaker("pocket").replies([case], False, [SamplingParams(temperature=0, max_tokens=2)])
    assert said.endswith(" [no end]")
