"""Answers as JSON: objects from given fields, lists, and a capital as an object."""

from __future__ import annotations

import json

from . import words
from .conversation import Turn
from .maker import Maker
from .words import phrases

OBJECT = phrases(
    """
    Give me JSON with {s}. | Write a JSON object with {s}. | JSON please: {s} | Answer in JSON: {s} |
    Return only JSON with {s} | Make a JSON object with {s}. | {s} as JSON | Turn this into JSON: {s} |
    Please write JSON with {s}. | JSON with {s} | Give me {s} as JSON. | Make JSON from {s}. | {s} in JSON |
    I need {s} as a JSON object. | Format as JSON: {s}
    """
)
LIST = phrases(
    """
    Give me a JSON list of {s}. | Write a JSON array with {s}. | JSON list: {s} | {s} as a JSON list |
    Return a JSON list with {s}. | Make a JSON list from {s}. | A JSON array of {s}, please.
    """
)
CAPITAL = [
    "Give me the capital of {c} as JSON.",
    "Answer as JSON: capital of {c}",
    "JSON with the capital of {c}",
]


def json_answer(maker: Maker) -> Turn:
    """A request for JSON; a held-out one holds a word that training never gives out."""
    turn = _request(maker)
    while maker.held_out and not _has_free_word(turn):
        turn = _request(maker)
    return turn


def _has_free_word(turn: Turn) -> bool:
    found = json.loads(turn.answer)
    if isinstance(found, dict):
        return bool({"name", "city", "item"} & set(found)) and "capital" not in found
    return any(isinstance(item, str) and item not in words.COLOURS for item in found)


def _request(maker: Maker) -> Turn:
    kind = maker.rng.random()
    if kind < 0.75:
        return _object(maker)
    if kind < 0.92:
        return _list(maker)
    country = maker.choice(list(words.CAPITALS))
    answer = json.dumps({"country": country.removeprefix("the "), "capital": words.CAPITALS[country]})
    thought = "The user wants a JSON object with country, capital."
    return Turn(maker.choice(CAPITAL).format(c=country), answer, thought, "json")


def _object(maker: Maker) -> Turn:
    fields: list[tuple[str, str | int]] = [
        ("name", maker.name()),
        ("age", maker.rng.randint(1, 99)),
        ("city", maker.city()),
        ("item", maker.word()),
        ("color", maker.choice(words.COLOURS)),
        ("count", maker.rng.randint(0, 999)),
    ]
    maker.rng.shuffle(fields)
    chosen = fields[: maker.choice([1, 2, 2, 3, 3])]
    question = maker.choice(OBJECT).format(s=_joined([f"{key} {value}" for key, value in chosen]))
    thought = f"The user wants a JSON object with {', '.join(key for key, _ in chosen)}."
    return Turn(question, json.dumps(dict(chosen), ensure_ascii=False), thought, "json")


def _list(maker: Maker) -> Turn:
    count = maker.choice([2, 3, 3, 4])
    items: list[str | int]
    if maker.chance(0.3):
        items = [maker.rng.randint(0, 999) for _ in range(count)]
    else:
        items = [maker.word() if maker.chance(0.7) else maker.choice(words.COLOURS) for _ in range(count)]
    question = maker.choice(LIST).format(s=_joined([str(item) for item in items]))
    return Turn(question, json.dumps(items), f"The user wants a JSON list of {count} items.", "json")


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
