"""The prompts: drawn by the corpus' own generators, on the side of the hold-out rule that is not trained."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..corpus import SKILLS, Conversation, Maker, Turn, messages
from ..corpus.greetings import greeting
from ..corpus.memory import memory_turns
from ..corpus.tools import calculator, double, get_weather, single
from .judges import Judge, equal, story_about

NEGATIVE = "negative differences"
OFF_TOPIC_SHARE = 1.5  # off-topic prompts for each one of another group: they have the most kinds
TRIES = 200  # draws for each prompt wanted, before a group is said to be too small


@dataclass(frozen=True)
class Case:
    """One prompt and the reply that is right for it."""

    group: str
    messages: list[dict[str, Any]]
    expected: str
    tools: tuple[dict[str, Any], ...] = ()
    right: Judge = equal


def cases_of(turns: Iterable[Turn], tools: list[dict[str, Any]], thinking: bool, name: str) -> list[Case]:
    """The prompts that lead through the last turn: each of its tool calls, and its answer."""
    turns = tuple(turns)
    chat = messages(Conversation(turns, tools=tuple(tools), thinking=thinking))
    last = turns[-1]
    expected = [step.call_text() for step in last.steps] + [last.answer]
    first = len(chat) - 1 - 2 * len(last.steps)
    labels = [f"{name}: call {i + 1}" for i in range(len(last.steps))]
    if len(labels) == 1:
        labels = [f"{name}: call"]
    labels.append(f"{name}: answer" if last.steps else name)
    return [
        Case(label, chat[: first + 2 * i], text, tuple(tools), _judge(last))
        for i, (label, text) in enumerate(zip(labels, expected, strict=True))
    ]


def _judge(turn: Turn) -> Judge:
    if turn.skill != "story":
        return equal
    thing = re.search(r"about an? (\S+) called", turn.thought)
    assert thing, turn.thought
    return story_about(thing[1])


def held_out_cases(maker: Maker, count: int, thinking: bool) -> Iterator[Case]:
    """`count` different prompts of each group, and half as many again that are off-topic."""
    everyday = Maker(maker.rng, maker.fragments)  # what is talked about between telling and asking
    for name, make in SKILLS.items():
        wanted = round(count * OFF_TOPIC_SHARE) if name == "unknown" else count
        yield from _different(partial(_plain, maker, make, name, thinking), wanted)
    yield from _different(partial(_negative, maker, thinking), count)
    for skill in ("name", "colour"):
        yield from _different(partial(_memory, maker, everyday, skill, thinking), count)
    for tool in ("calculator", "get_weather"):
        yield from _different(partial(_one_call, maker, tool, thinking), count)
    yield from _different(partial(_two_calls, maker, thinking), count)


def _different(draw: Callable[[], list[Case]], count: int) -> Iterator[Case]:
    """The cases of `count` draws that differ in their first prompt; a draw may also come to nothing."""
    seen: set[str] = set()
    for _ in range(count * TRIES):
        if len(seen) == count:
            return
        found = draw()
        key = json.dumps(found[0].messages, ensure_ascii=False) if found else ""
        if found and key not in seen:
            seen.add(key)
            yield from found
    if len(seen) < count:
        raise ValueError(f"only {len(seen)} different prompts instead of {count}: lower --count")


def _plain(maker: Maker, make: Callable[[Maker], Turn], name: str, thinking: bool) -> list[Case]:
    return cases_of([make(maker)], [], thinking, name)


def _negative(maker: Maker, thinking: bool) -> list[Case]:
    turn = SKILLS["subtraction"](maker)
    return cases_of([turn], [], thinking, NEGATIVE) if "= -" in turn.answer else []


def _memory(maker: Maker, everyday: Maker, skill: str, thinking: bool) -> list[Case]:
    """A conversation up to where the name or the colour is asked for."""
    turns = memory_turns(maker, lambda: greeting(everyday))
    asked = [i for i, turn in enumerate(turns) if turn.skill == skill]
    return cases_of(turns[: asked[-1] + 1], [], thinking, f"memory of a {skill}") if asked else []


def _one_call(maker: Maker, tool: str, thinking: bool) -> list[Case]:
    return cases_of([single(maker, tool)], _both_tools(maker), thinking, tool)


def _two_calls(maker: Maker, thinking: bool) -> list[Case]:
    turn = double(maker, ["calculator", "get_weather"])
    return cases_of([turn], _both_tools(maker), thinking, "two calls")


def _both_tools(maker: Maker) -> list[dict[str, Any]]:
    return [calculator(maker), get_weather(maker)]
