"""Scores a checkpoint on prompts that its corpus never holds, greedily and through qanat itself.

    python -m tools.pocket.evaluate --model pocket --count 50

Each skill gets `count` prompts, with thinking off and on. A reply is right when the text behind its thought
equals the expected one exactly; a story is judged by rules. Tool skills are scored twice: the call, and the
answer once the tool has spoken. At 50 prompts the 95 % interval is about +-8 points near 90 %, so take small
differences for noise.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qanat import LLM, SamplingParams

from . import tokenizer
from .corpus import SKILLS, Conversation, Fragments, Maker, Turn, messages
from .corpus.greetings import greeting
from .corpus.memory import memory_turns
from .corpus.tools import calculator, double, get_weather, single

LONGEST_REPLY = 200
THOUGHT_END = "</think>\n\n"


@dataclass(frozen=True)
class Case:
    """One prompt and the reply that is right for it."""

    skill: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    expected: str
    right: Callable[[str, str], bool]


def equal(said: str, expected: str) -> bool:
    """The exact text."""
    return said == expected


def story_is_sound(said: str, expected: str) -> bool:
    """At least three sentences that end, about the thing in question, without broken characters."""
    thing = re.search(r" named | called ", expected)
    named = expected[: thing.start()].split()[-1] if thing else ""
    return said.endswith(".") and said.count(".") >= 3 and named in said and "\ufffd" not in said


def cases_of(turns: tuple[Turn, ...], tools: list[dict[str, Any]], thinking: bool, name: str) -> list[Case]:
    """The prompts that lead through the last turn: each of its tool calls, and its answer."""
    chat = messages(Conversation(turns, tools=tuple(tools), thinking=thinking))
    last = turns[-1]
    expected = [step.call_text() for step in last.steps] + [last.answer]
    first = len(chat) - 1 - 2 * len(last.steps)
    labels = [f"{name} call {i + 1}" for i in range(len(last.steps))]
    labels.append(f"{name} answer" if last.steps else name)
    right = story_is_sound if last.skill == "story" else equal
    return [
        Case(label, chat[: first + 2 * i], tools, text, right)
        for i, (label, text) in enumerate(zip(labels, expected, strict=True))
    ]


def cases(maker: Maker, count: int, thinking: bool) -> Iterator[Case]:
    """All prompts of an evaluation."""
    for name, make in SKILLS.items():
        for _ in range(count):
            yield from cases_of((make(maker),), [], thinking, name)
    everyday = Maker(maker.rng, maker.fragments)  # what is talked about between telling and asking
    for _ in range(count):
        turns = memory_turns(maker, lambda: greeting(everyday))
        last = max(i for i, turn in enumerate(turns) if turn.skill in ("name", "colour"))
        yield from cases_of(tuple(turns[: last + 1]), [], thinking, f"memory of a {turns[last].skill}")
    for _ in range(count):
        tools = [calculator(maker), get_weather(maker)]
        yield from cases_of((single(maker, "calculator"),), tools, thinking, "calculator")
        yield from cases_of((single(maker, "get_weather"),), tools, thinking, "get_weather")
        yield from cases_of((double(maker, ["calculator", "get_weather"]),), tools, thinking, "two calls")


def replies(llm: LLM, asked: list[Case], thinking: bool) -> list[str]:
    """What the model says to each prompt, without its thought."""
    prompts = [
        llm.template.render(
            case.messages, tools=case.tools or None, add_generation_prompt=True, enable_thinking=thinking
        )
        for case in asked
    ]
    params = SamplingParams(temperature=0, max_tokens=LONGEST_REPLY)
    said = [reply.text.removesuffix("<|im_end|>") for reply in llm.generate(prompts, params)]
    return [text.split(THOUGHT_END, 1)[-1] if thinking else text for text in said]


def score(llm: LLM, fragments: Fragments, count: int, seed: int, show: int) -> dict[str, dict[str, float]]:
    """Percentages right: skill -> {"off", "on"} (thinking), printing `show` wrong replies per skill."""
    table: dict[str, dict[str, float]] = {}
    for thinking in (False, True):
        label = "on" if thinking else "off"
        asked = list(cases(Maker(random.Random(seed), fragments, held_out=True), count, thinking))
        verdicts: dict[str, list[bool]] = {}
        for case, said in zip(asked, replies(llm, asked, thinking), strict=True):
            verdict = case.right(said, case.expected)
            if not verdict and verdicts.get(case.skill, []).count(False) < show:
                print(f"  {case.skill}: {case.messages[-1]['content']!r} -> {said!r}, not {case.expected!r}")
            verdicts.setdefault(case.skill, []).append(verdict)
        for skill, found in verdicts.items():
            table.setdefault(skill, {})[label] = 100 * sum(found) / len(found)
    return table


def main() -> None:
    """Print a table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--count", type=int, default=50, help="prompts per skill")
    parser.add_argument("--seed", type=int, default=77)
    parser.add_argument("--show", type=int, default=0, help="wrong replies to print per skill")
    parser.add_argument("--json", type=Path, help="write the scores here too")
    args = parser.parse_args()
    llm = LLM(args.model)
    fragments = Fragments.of(tokenizer.load(llm.checkpoint.path))
    table = score(llm, fragments, args.count, args.seed, args.show)
    print(f"\n{'skill':24}{'off':>8}{'on':>8}   % right of {args.count}, thinking off and on")
    for skill, row in table.items():
        print(f"{skill:24}{row['off']:8.1f}{row['on']:8.1f}")
    if args.json:
        args.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
