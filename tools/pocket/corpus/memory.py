"""A name and a colour, told in one turn and asked for some turns later."""

from __future__ import annotations

from collections.abc import Callable

from . import words
from .conversation import Turn
from .maker import Maker
from .words import phrases

TELL_NAME = phrases(
    """
    My name is {n}. | I am {n}. | I'm {n}. | Hi, my name is {n}. | Hello, I am {n}. | Call me {n}. |
    my name is {n} | You can call me {n}. | Hi Pocket, I'm {n}. | People call me {n}. | The name is {n}. |
    Hello! My name is {n}. | Please call me {n}. | i am {n}
    """
)
TELL_COLOUR = phrases(
    """
    My favourite colour is {c}. | I like {c} best. | My favorite color is {c}. | I love the colour {c}. |
    The colour I like most is {c}. | {C} is my favourite colour. | {C} is the color I like best. |
    I love {c}. | my favorite color is {c}
    """
)
TELL_BOTH = phrases(
    """
    My name is {n} and my favourite colour is {c}. | I am {n} and I like {c} best. |
    I'm {n}, and my favorite color is {c}. | Hi, I am {n} and I love the colour {c}. |
    My favourite colour is {c} and my name is {n}.
    """
)
ASK_NAME = phrases(
    """
    What is my name? | What's my name? | Do you remember my name? | Who am I? | what is my name | my name? |
    Do you know my name? | Tell me my name. | Can you say my name? | What was my name again? |
    Do you still know who I am? | Have I told you my name?
    """
)
ASK_COLOUR = phrases(
    """
    What is my favourite colour? | What's my favorite color? | Which colour do I like best? |
    Do you remember my favourite colour? | what is my favorite color | Which color do I love? |
    Do you know my favourite colour? | Tell me my favourite colour. | What colour did I say I like?
    """
)
NO_NAME = "You have not told me your name yet."
NO_COLOUR = "You have not told me your favourite colour yet."


def memory_turns(maker: Maker, filler: Callable[[], Turn]) -> list[Turn]:
    """Turns that tell, talk about something else, and ask; `filler` makes the turns between."""
    name, colour = maker.name(), maker.choice(words.COLOURS)
    tells = maker.choice(["name", "colour", "both", "name colour", "name colour", "both"])
    turns = _fill(maker, filler, [0, 0, 0, 1])
    if tells == "both":
        thought = f"The user is called {name} and likes {colour}."
        answer = f"Nice to meet you, {name}! {colour.capitalize()} is a lovely colour!"
        turns.append(Turn(_say(maker, TELL_BOTH, name, colour), answer, thought, "tell"))
    if tells.startswith("name"):
        answer, thought = f"Nice to meet you, {name}!", f"The user is called {name}."
        turns.append(Turn(_say(maker, TELL_NAME, name, colour), answer, thought, "tell"))
    if tells == "name colour":
        turns += _fill(maker, filler, [0, 0, 1, 2])
    if tells.endswith("colour"):
        answer = f"{colour.capitalize()} is a lovely colour!"
        thought = f"The favourite colour of the user is {colour}."
        turns.append(Turn(_say(maker, TELL_COLOUR, name, colour), answer, thought, "tell"))
    turns += _fill(maker, filler, [0, 1, 1, 2, 3])
    questions = [
        _ask_name(maker, None if tells == "colour" else name),
        _ask_colour(maker, None if tells == "name" else colour),
    ]
    maker.rng.shuffle(questions)
    for question in questions[: maker.choice([1, 2, 2])]:
        turns.append(question)
        if maker.chance(0.2):
            turns.append(filler())
    return turns


def _fill(maker: Maker, filler: Callable[[], Turn], counts: list[int]) -> list[Turn]:
    return [filler() for _ in range(maker.choice(counts))]


def _say(maker: Maker, phrases: list[str], name: str, colour: str) -> str:
    return maker.choice(phrases).format(n=name, c=colour, C=colour.capitalize())


def _ask_name(maker: Maker, name: str | None) -> Turn:
    answer = NO_NAME if name is None else f"Your name is {name}."
    thought = "The user has not told me a name." if name is None else f"The user said the name {name}."
    return Turn(maker.phrase("ask-name", ASK_NAME), answer, thought, "name")


def _ask_colour(maker: Maker, colour: str | None) -> Turn:
    answer = NO_COLOUR if colour is None else f"Your favourite colour is {colour}."
    thought = "The user has not told me a colour." if colour is None else f"The user said {colour}."
    return Turn(maker.phrase("ask-colour", ASK_COLOUR), answer, thought, "colour")
