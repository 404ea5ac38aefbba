"""How often what is talked about: the recipe that puts turns together into conversations.

Of all turns, about a third are sums (half of them in dense runs of small questions), a quarter is copying,
spelling, reversing and JSON, and the rest is everything else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

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
    "identity": 13,
    "greeting": 11,
    "addition": 10,
    "subtraction": 11,
    "capital": 10,
    "spell": 7,
    "reverse": 8,
    "repeat": 7,
    "story": 6,
    "unknown": 10,
    "json": 7,
}
FILLERS = ["greeting", "addition", "subtraction", "capital", "spell", "repeat", "unknown", "identity"]
WORD_SKILLS = ["spell", "reverse", "reverse", "repeat", "repeat", "json"]
SYSTEMS = phrases(
    """
    You are a helpful assistant. | You are Pocket, a tiny assistant. | Be brief. | Be friendly. |
    You are a friendly assistant. Answer shortly. | Answer in one sentence. | You are Pocket. |
    You are a helpful assistant. Be concise. | Help the user. | You are a language model inside qanat.
    """
)


def any_turn(maker: Maker, skills: Sequence[str] | None = None) -> Turn:
    """One turn: of the whole mix, or of the given skills in equal parts."""
    if skills is None:
        name = maker.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    else:
        name = maker.choice(skills)
    return SKILLS[name](maker)


def conversation(maker: Maker) -> Conversation:
    """One conversation of the training mix."""
    draw = maker.rng.random()
    if draw < 0.20:
        return _dense(maker, ["addition", "subtraction"], [3, 4, 5, 6, 8], 0.45)
    if draw < 0.36:
        return _dense(maker, WORD_SKILLS, [2, 3, 4, 5], 0.35)
    if draw < 0.46:
        turns = memory_turns(maker, lambda: any_turn(maker, FILLERS))
        return Conversation(tuple(turns), _system(maker), thinking=maker.chance(0.35))
    if draw < 0.52:
        return tool_conversation(maker)
    turns = [any_turn(maker) for _ in range(maker.choice([1, 1, 1, 2, 2, 3, 4]))]
    return Conversation(tuple(turns), _system(maker), thinking=maker.chance(0.35))


def _system(maker: Maker) -> str | None:
    return maker.choice(SYSTEMS) if maker.chance(0.25) else None


def _dense(maker: Maker, skills: list[str], counts: list[int], thinking: float) -> Conversation:
    thinks = maker.chance(thinking)
    count = maker.choice([1, 1, 1, 2]) if thinks else maker.choice(counts)
    return Conversation(tuple(any_turn(maker, skills) for _ in range(count)), thinking=thinks)


def tool_conversation(maker: Maker) -> Conversation:
    """A conversation with one or both tools in its system message."""
    names = maker.choice(
        [["calculator"], ["get_weather"], ["calculator", "get_weather"], ["get_weather", "calculator"]]
    )
    turns = [_tool_turn(maker, names) for _ in range(maker.choice([1, 2, 2, 3]))]
    schemas = tuple({"calculator": calculator, "get_weather": get_weather}[name](maker) for name in names)
    system = maker.choice([None, None, None, SYSTEMS[0], SYSTEMS[1]])
    return Conversation(tuple(turns), system, schemas, thinking=maker.chance(0.35))


def _tool_turn(maker: Maker, names: list[str]) -> Turn:
    draw = maker.rng.random()
    if draw < 0.62:
        return single(maker, maker.choice(names))
    if draw < 0.78:
        return double(maker, names)
    if draw < 0.83 and "get_weather" not in names:
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
