"""What the built-in model is scored on never occurs in its training corpus."""

from __future__ import annotations

import json
import random
import re
from functools import cache

import pytest

from tools.pocket.corpus import SKILLS, Fragments, Maker, Turn, conversation, is_held_out, pair_is_held_out
from tools.pocket.corpus.greetings import CORES
from tools.pocket.corpus.identity import ALWAYS, SUBJECTS
from tools.pocket.corpus.knowledge import CAPITAL_QUESTIONS, UNKNOWN_QUESTIONS
from tools.pocket.corpus.maker import bare
from tools.pocket.corpus.wording import OPENINGS
from tools.pocket.scoring.cases import NEGATIVE, Case, held_out_cases
from tools.pocket.scoring.new_wordings import CAPITALS, IDENTITY, OFF_TOPIC, new_wordings

FRAGMENTS = Fragments(first=("ka", "lum", "s"), capital=("Be", "T"), inner=("ri", "on", "x"))
TRAINED_TURNS = 20_000
FREE_WORDING = {"identity": ALWAYS, "greeting": CORES}

Question = tuple[bool, str]  # whether tools are on offer, and the bare words


@cache
def trained() -> set[Question]:
    """What is asked in training conversations."""
    source, found, turns = Maker(random.Random(15), FRAGMENTS), set(), 0
    while turns < TRAINED_TURNS:
        made = conversation(source)
        found |= {(bool(made.tools), bare(turn.user)) for turn in made.turns}
        turns += len(made.turns)
    return found


@cache
def evaluated(count: int = 60) -> list[Case]:
    return list(held_out_cases(Maker(random.Random(16), FRAGMENTS, held_out=True), count, thinking=False))


def question(case: Case) -> Question:
    asked = [message["content"] for message in case.messages if message["role"] == "user"]
    return bool(case.tools), bare(asked[-1])


def held_out_turns(skill: str, count: int) -> list[Turn]:
    maker = Maker(random.Random(17), FRAGMENTS, held_out=True)
    return [SKILLS[skill](maker) for _ in range(count)]


def test_no_evaluation_prompt_is_asked_in_training() -> None:
    assert not [case for case in evaluated() if question(case) in trained()]


@pytest.mark.parametrize("skill", sorted(SKILLS))
def test_training_and_evaluation_share_no_question_of_a_skill(skill: str) -> None:
    source = Maker(random.Random(15), FRAGMENTS)
    asked = {bare(SKILLS[skill](source).user) for _ in range(3_000)}
    assert not [turn.user for turn in held_out_turns(skill, 200) if bare(turn.user) in asked]


@pytest.mark.parametrize(("skill", "operation"), [("addition", "+"), ("subtraction", "-")])
def test_every_pair_of_numbers_is_held_out_by_its_hash(skill: str, operation: str) -> None:
    for turn in held_out_turns(skill, 300):
        a, b = map(int, re.findall(r"\d+", turn.user))
        assert pair_is_held_out(operation, a, b), turn.user


@pytest.mark.parametrize("skill", ["spell", "reverse"])
def test_every_word_is_held_out_by_its_hash(skill: str) -> None:
    for turn in held_out_turns(skill, 300):
        word = turn.answer.replace(" ", "") if skill == "spell" else turn.answer[::-1]
        assert is_held_out("word", word), turn


def test_all_that_is_to_be_repeated_is_held_out_by_its_hash() -> None:
    for turn in held_out_turns("repeat", 300):
        assert all(is_held_out("word", word) for word in turn.answer.split()), turn.user


def test_every_json_prompt_has_a_word_that_is_held_out_by_its_hash() -> None:
    for turn in held_out_turns("json", 300):
        made = json.loads(turn.answer)
        values = made.values() if isinstance(made, dict) else made
        assert any(is_held_out("word", str(value)) for value in values), turn.user


@pytest.mark.parametrize("skill", sorted(FREE_WORDING))
def test_every_free_wording_is_held_out_by_its_hash(skill: str) -> None:
    for turn in held_out_turns(skill, 300):
        words = bare(turn.user)
        assert is_held_out(skill, words), turn.user
        assert words not in FREE_WORDING[skill], turn.user


def test_every_question_for_a_capital_is_held_out_by_its_hash() -> None:
    assert all(is_held_out("capital text", bare(turn.user)) for turn in held_out_turns("capital", 300))


def test_the_groups_have_as_many_different_prompts_as_they_should() -> None:
    for group, count in {"json": 60, NEGATIVE: 60, "unknown": 90, "two calls: call 2": 60}.items():
        chats = [json.dumps(case.messages) for case in evaluated() if case.group == group]
        assert len(set(chats)) == len(chats) == count, group
    assert all("= -" in case.expected for case in evaluated() if case.group == NEGATIVE)


def test_no_new_wording_is_asked_in_training() -> None:
    cases = list(new_wordings(random.Random(1)))
    assert len(cases) == 60 + 60 + 60
    assert not [case for case in cases if question(case) in trained()]


def test_new_wordings_about_itself_hold_no_phrase_of_the_corpus() -> None:
    phrases = {bare(text) for about in SUBJECTS for text in (*about.asked.direct, *about.asked.clauses)}
    long = [phrase for phrase in phrases if len(phrase.split()) >= 3]
    for asked in [text for texts in IDENTITY.values() for text in texts]:
        assert bare(asked) not in phrases, asked
        assert not [phrase for phrase in long if f" {phrase} " in f" {bare(asked)} "], asked


def test_new_off_topic_questions_fit_no_template() -> None:
    dressed = "|".join(re.escape(bare(opening)) for opening in OPENINGS)
    for template in UNKNOWN_QUESTIONS:
        if not re.sub(r"\{\w+\}|\W", "", template):
            continue  # invented words alone: any text has their form
        words = re.escape(bare(re.sub(r"\{\w+\}", "FILLER", template))).replace("filler", r"\S+")
        pattern = re.compile(rf"(?:(?:{dressed}) )?{words}(?: please)?")
        assert not [asked for asked in OFF_TOPIC if pattern.fullmatch(bare(asked))], template


def test_new_questions_for_a_capital_fit_no_template() -> None:
    known = {bare(template.format(c="Peru", C="Peru")) for template in CAPITAL_QUESTIONS}
    openings = [bare(opening) for opening in OPENINGS]
    dressed = known | {f"{opening} {text}" for opening in openings for text in known}
    dressed |= {f"{text} please" for text in dressed}
    assert not [form for form in CAPITALS if bare(form.format(c="Peru")) in dressed]
