"""Calling `calculator` and `get_weather`, using what they answer, one or two calls in a row."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from . import words
from .conversation import ToolStep, Turn
from .maker import Maker, pair_is_held_out
from .words import phrases

OPERATIONS = {"*": "times", "+": "plus", "-": "minus", "/": "divided by"}
SUM_QUESTIONS = phrases(
    """
    What is {a} {name} {b}? | What is {a} {op} {b}? | {a}{op}{b} | {a} {op} {b} = ? |
    Calculate {a} {op} {b}. | Please compute {a} {name} {b}. | {a} {name} {b} | How much is {a} {op} {b}? |
    {a} {op} {b} | Use the calculator: {a} {op} {b} | Work out {a} {op} {b}. | What does {a} {op} {b} give? |
    Tell me {a} {op} {b}. | what's {a} {name} {b}? | Can you calculate {a} {op} {b}? | {a}{op}{b}=?
    """
)
WEATHER_QUESTIONS = phrases(
    """
    What is the weather in {c}? | What's the weather like in {c}? | weather in {c} | Is it raining in {c}? |
    How is the weather in {c} today? | Tell me the weather in {c}. | Is it warm in {c}? | Weather {c}? |
    How warm is it in {c}? | Do I need an umbrella in {c}? | What is it like in {c} now? | {c} weather |
    How cold is it in {c}? | Will I need a coat in {c}? | Check the weather in {c}. | Is it sunny in {c}?
    """
)
CALCULATOR_TEXTS = [
    "Evaluate an arithmetic expression.",
    "A calculator.",
    "Calculate the value of an expression.",
]
WEATHER_TEXTS = ["Get the current weather in a city.", "Current weather of a city.", "Look up the weather."]
FAILED = "The tool could not tell me that."


@dataclass(frozen=True)
class Task:
    """One thing to look up: how it is asked, the call, and how its result is said."""

    question: str
    short: str  # the question as a part of a longer one
    step: ToolStep
    said: str
    result: str


def _schema(name: str, text: str, parameter: str, about: str | None) -> dict[str, Any]:
    kind = {"type": "string"} if about is None else {"type": "string", "description": about}
    parameters = {"type": "object", "properties": {parameter: kind}, "required": [parameter]}
    return {"type": "function", "function": {"name": name, "description": text, "parameters": parameters}}


def calculator(maker: Maker) -> dict[str, Any]:
    """The calculator's schema, in one of several wordings."""
    about = maker.choice([None, "The expression, for example 2*3"])
    return _schema("calculator", maker.choice(CALCULATOR_TEXTS), "expression", about)


def get_weather(maker: Maker) -> dict[str, Any]:
    """The schema of the weather tool, in one of several wordings."""
    about = maker.choice([None, "The name of the city"])
    return _schema("get_weather", maker.choice(WEATHER_TEXTS), "city", about)


def sum_task(maker: Maker) -> Task:
    """A sum for the calculator, of any size."""
    while True:
        op = maker.choice(["*", "*", "*", "+", "-", "/"])
        top = 999 if op != "*" or maker.chance(0.3) else 99
        a, b = maker.rng.randint(2, top), maker.rng.randint(2, 999 if maker.chance(0.2) else 99)
        if op == "/":
            a = b * maker.rng.randint(2, 30)
        if pair_is_held_out(op, a, b) == maker.held_out:
            break
    value = {"*": a * b, "+": a + b, "-": a - b, "/": a // b}[op]
    question = maker.loosely(maker.choice(SUM_QUESTIONS).format(a=a, b=b, op=op, name=OPERATIONS[op]))
    step = ToolStep("I can use the calculator.", "calculator", {"expression": f"{a}{op}{b}"}, str(value))
    return Task(question, f"what is {a} {op} {b}", step, f"{a} {op} {b} = {value}", str(value))


def weather_task(maker: Maker) -> Task:
    """The weather in a city; the answer of the tool comes as JSON or as plain text."""
    city, degrees, sky = maker.city(), maker.rng.randint(-9, 40), maker.choice(words.WEATHER)
    form = maker.rng.random()
    if form < 0.5:
        response = json.dumps({"city": city, "temperature": degrees, "sky": sky}, ensure_ascii=False)
    elif form < 0.7:
        response = json.dumps({"temperature": degrees, "condition": sky})
    else:
        response = maker.choice(
            [f"{sky}, {degrees} C", f"{degrees} degrees and {sky}", f"{sky}, {degrees}°C"]
        )
    question = maker.choice(WEATHER_QUESTIONS).format(c=city)
    if not question.startswith(city):
        question = maker.loosely(question)
    step = ToolStep("I can look up the weather.", "get_weather", {"city": city}, response)
    said = f"It is {sky} in {city} with {degrees} degrees."
    return Task(question, f"what is the weather in {city}", step, said, f"{sky} and {degrees}")


TASKS = {"calculator": sum_task, "get_weather": weather_task}


def single(maker: Maker, tool: str) -> Turn:
    """One call, and the answer from its result."""
    task = TASKS[tool](maker)
    if maker.chance(0.04):
        step = ToolStep(
            task.step.thought, tool, task.step.arguments, maker.choice(["error", "Error: not found"])
        )
        return Turn(task.question, FAILED, "The tool failed.", tool, (step,))
    return Turn(task.question, task.said, f"The tool says {task.result}.", tool, (task.step,))


def double(maker: Maker, tools: list[str]) -> Turn:
    """Two calls in a row for one question."""
    first, second = (TASKS[maker.choice(tools)](maker) for _ in range(2))
    if maker.chance(0.5) and first.step.name == second.step.name == "get_weather":
        cities = (first.step.arguments["city"], second.step.arguments["city"])
        form = maker.choice(
            [
                "What is the weather in {} and in {}?",
                "Compare the weather in {} and {}.",
                "How is the weather in {} and {}?",
                "Weather in {} and {}, please.",
            ]
        )
        question = form.format(*cities)
    else:
        question = f"{first.short[0].upper()}{first.short[1:]} and {second.short}?"
    again = ToolStep(
        f"The tool says {first.result}. Now the second one.",
        second.step.name,
        second.step.arguments,
        second.step.response,
    )
    left = first.said.rstrip(".")
    right = second.said[0].lower() + second.said[1:] if second.said.startswith("It is") else second.said
    return Turn(
        question, f"{left} and {right}", f"The tool says {second.result}.", "two_calls", (first.step, again)
    )
