"""How often what is talked about: the recipe that puts turns together into conversations.

There are two mixes: the last part of a training has more of what comes hardest (thoughts about sums, reversed
words, questions of any kind that are beyond the miniature), when the rest is nearly learnt.

In the first, a fifth of the conversations are dense runs of sums, a quarter dense runs of copying, spelling,
reversing and JSON: short to read, almost all of it learnt, and the skills that take longest.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .arithmetic import addition, subtraction
from .conversation import Conversation, Turn
from .greetings import greeting
from .identity import identity
from .knowledge import UNKNOWN, capital, unknown
from .maker import Maker
from .memory import memory_turns
from .spelling import repeat, reverse, spell
from .stories import story
from .structured import json_answer
from .tools import calculator, double, get_weather, single, weather_task
from .words import phrases

SKILLS: dict[str, Callable[[Maker], Turn]] = {
    "identity": identity,
    "greeting": greeting,
    "addition": addition,
    "subtraction": subtraction,
    "capital": capital,
    "spell": spell,
    "reverse": reverse,
    "repeat": repeat,
    "story": story,
    "unknown": unknown,
    "json": json_answer,
}
WEIGHTS = {
    "identity": 14,
    "greeting": 11,
    "addition": 8,
    "subtraction": 10,
    "capital": 11,
    "spell": 6,
    "reverse": 7,
    "repeat": 6,
    "story": 7,
    "unknown": 13,
    "json": 7,
}
FILLERS = ["greeting", "addition", "subtraction", "capital", "spell", "repeat", "unknown", "identity"]
WORD_SKILLS = ["spell", "spell", "reverse", "reverse", "repeat", "json"]
SYSTEMS = phrases(
    """
    You are a helpful assistant. | You are Pocket, a tiny assistant. | Be brief. | Be friendly. |
    You are a friendly assistant. Answer shortly. | Answer in one sentence. | You are Pocket. |
    You are a helpful assistant. Be concise. | Help the user. | You are a language model inside qanat.
    """
)
# Instructions that change nothing: the miniature answers as ever, whatever it is told to be.
OTHER_SYSTEMS = phrases(
    """
    You are a {w}. | You are {n}, a helpful {w}. | Talk like a {w}. | The user lives in {c}. |
    Be a good {w}. |
    You work for {n} in {c}. | Never talk about the {w}. | You are an expert in {w}. | Speak politely. |
    Today the weather in {c} is fine. | You are a teacher who likes the {w}.
    """
)


def any_turn(maker: Maker, skills: Sequence[str]) -> Turn:
    """One turn of the given skills in equal parts."""
    return SKILLS[maker.choice(skills)](maker)


@dataclass(frozen=True)
class Mix:
    """Shares of the kinds of conversation, and how often each skill comes up."""

    sums: float  # share of dense runs of sums
    sums_thinking: float
    words: float  # share of dense runs of word games
    words_thinking: float
    memory: float
    tools: float  # what is left is everyday talk
    word_skills: Sequence[str]
    weights: dict[str, int]


EARLY = Mix(0.19, 0.45, 0.27, 0.4, 0.09, 0.06, WORD_SKILLS, WEIGHTS)
LATE = Mix(
    sums=0.22,
    sums_thinking=0.65,
    words=0.28,
    words_thinking=0.3,
    memory=0.06,
    tools=0.08,
    word_skills=["spell", "reverse", "reverse", "reverse", "repeat", "json", "json"],
    weights=WEIGHTS
    | {"identity": 17, "addition": 6, "subtraction": 6, "spell": 3, "reverse": 3, "repeat": 4, "unknown": 28},
)
LATE_FROM = 0.6
"""Share of a training after which the late mix is drawn from."""


def conversation(maker: Maker, late: bool = False) -> Conversation:
    """One conversation of the training mix."""
    mix = LATE if late else EARLY
    draw = maker.rng.random()
    if (draw := draw - mix.sums) < 0:
        return _dense(maker, ["addition", "subtraction"], [3, 4, 5, 6, 8], mix.sums_thinking)
    if (draw := draw - mix.words) < 0:
        return _dense(maker, mix.word_skills, [2, 3, 4, 5], mix.words_thinking)
    if (draw := draw - mix.memory) < 0:
        turns = memory_turns(maker, lambda: any_turn(maker, FILLERS))
        return Conversation(tuple(turns), _system(maker), thinking=maker.chance(0.35))
    if draw < mix.tools:
        return tool_conversation(maker)
    turns = [_everyday(maker, mix, late) for _ in range(maker.choice([1, 1, 1, 2, 2, 3, 4]))]
    return Conversation(tuple(turns), _system(maker), thinking=maker.chance(0.35))


def _everyday(maker: Maker, mix: Mix, late: bool) -> Turn:
    name = maker.rng.choices(list(mix.weights), list(mix.weights.values()))[0]
    return unknown(maker, late) if name == "unknown" else SKILLS[name](maker)


def _system(maker: Maker) -> str | None:
    if not maker.chance(0.25):
        return None
    if maker.chance(0.7):
        return maker.choice(SYSTEMS)
    form = maker.choice(OTHER_SYSTEMS)
    return form.format(w=maker.word(), n=maker.name(), c=maker.city())


def _dense(maker: Maker, skills: Sequence[str], counts: list[int], thinking: float) -> Conversation:
    thinks = maker.chance(thinking)
    count = maker.choice([1, 1, 1, 2]) if thinks else maker.choice(counts)
    return Conversation(tuple(any_turn(maker, skills) for _ in range(count)), thinking=thinks)


def tool_conversation(maker: Maker) -> Conversation:
    """A conversation with one or both tools in its system message."""
    names = maker.choice(
        [["calculator"], ["get_weather"], ["calculator", "get_weather"], ["get_weather", "calculator"]]
    )
    turns = [_tool_turn(maker, names) for _ in range(maker.choice([1, 1, 2, 2, 3]))]
    schemas = tuple({"calculator": calculator, "get_weather": get_weather}[name](maker) for name in names)
    system = maker.choice([None, None, None, SYSTEMS[0], SYSTEMS[1]])
    return Conversation(tuple(turns), system, schemas, thinking=maker.chance(0.4))


def _tool_turn(maker: Maker, names: list[str]) -> Turn:
    draw = maker.rng.random()
    if draw < 0.5:
        return single(maker, maker.choice(names))
    if draw < 0.8:
        return double(maker, names)
    if draw < 0.84 and "get_weather" not in names:
        asked = weather_task(maker).question
        return Turn(asked, UNKNOWN, "I have no tool for this, so I say what I can do.", "unknown")
    others = ["greeting", "identity", "capital", "spell", "repeat", "story", "reverse", "json"]
    if "calculator" not in names:
        others += ["addition", "subtraction"]
    return any_turn(maker, others)


def tokenizer_sample(rng: random.Random, count: int) -> Iterator[Conversation]:
    """Conversations for training the vocabulary; those with the long tool preamble are thinned out."""
    maker = Maker(rng)
    for _ in range(count):
        made = conversation(maker)
        if not made.tools or maker.chance(0.25):
            yield made
