"""A name and a colour, told in one turn and asked for some turns later."""

from __future__ import annotations

from collections.abc import Callable

from . import words
from .conversation import Turn
from .maker import Maker
from .wording import Wording
from .words import phrases

TELL_NAME = phrases(
    """
    My name is {n}. | I am {n}. | I'm {n}. | Hi, my name is {n}. | Hello, I am {n}. | Call me {n}. |
    my name is {n} | You can call me {n}. | Hi Pocket, I'm {n}. | People call me {n}. | The name is {n}. |
    Hello! My name is {n}. | Please call me {n}. | i am {n} | It's {n}. | {n} is my name. | Hey, {n} here. |
    My friends call me {n}. | This is {n}. | I go by {n}. | Hi there, I am {n}! | Remember my name: {n}.
    """
)
TELL_COLOUR = phrases(
    """
    My favourite colour is {c}. | I like {c} best. | My favorite color is {c}. | I love the colour {c}. |
    The colour I like most is {c}. | {C} is my favourite colour. | {C} is the color I like best. |
    I love {c}. | my favorite color is {c} | I really like {c}. | My favourite is {c}. | I prefer {c}. |
    For me the best colour is {c}. | I like the color {c}. | Remember that I like {c}.
    """
)
TELL_BOTH = phrases(
    """
    My name is {n} and my favourite colour is {c}. | I am {n} and I like {c} best. |
    I'm {n}, and my favorite color is {c}. | Hi, I am {n} and I love the colour {c}. |
    My favourite colour is {c} and my name is {n}.
    """
)
ASK_NAME = Wording(
    phrases(
        """
        what is my name | what's my name | do you remember my name | who am I | my name |
        do you know my name |
        tell me my name | can you say my name | what was my name | do you still know who I am |
        have I told you my name | do you remember who I am | say my name | what did I say my name was |
        which name did I tell you | do you recall my name | how am I called | what am I called |
        what name did I give you | can you remember my name | did I tell you my name | and my name |
        do you know who I am | what do people call me
        """
    ),
    phrases(
        "my name | what my name is | who I am | what I am called | which name I told you | what my name was"
    ),
)
ASK_COLOUR = Wording(
    [
        form.format(c=spelling)
        for spelling in ("colour", "color")
        for form in phrases(
            """
            what is my favourite {c} | what's my favorite {c} | which {c} do I like best | my favourite {c} |
            do you remember my favourite {c} | which {c} do I love | do you know my favorite {c} |
            tell me my favourite {c} | what {c} did I say I like | what is the {c} I like best |
            which {c} do I like most | what {c} do I like | what was my favorite {c} | my favorite {c} |
            which is my favourite {c} | what {c} do I love | do you know which {c} I like |
            which {c} did I tell you | can you remember my favorite {c} | what {c} is my favourite
            """
        )
    ],
    [
        form.format(c=spelling)
        for spelling in ("colour", "color")
        for form in phrases(
            """
            my favourite {c} | my favorite {c} | which {c} I like best | what my favourite {c} is |
            which {c} I love | what {c} I like | which {c} I like most
            """
        )
    ],
)
ALWAYS = ("what is my name", "what is my favourite colour", "what is my favorite color")
NO_NAME = "You have not told me your name yet."
NO_COLOUR = "You have not told me your favourite colour yet."


def memory_turns(maker: Maker, filler: Callable[[], Turn]) -> list[Turn]:
    """Turns that tell, talk about something else, and ask; `filler` makes the turns between."""
    name, colour = maker.name(), maker.choice(words.COLOURS)
    kinds = ["name", "colour", "both", "name colour", "name colour", "both"]
    tells = "nothing" if maker.chance(0.08) else maker.choice(kinds)
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
        _ask_name(maker, None if tells in ("colour", "nothing") else name),
        _ask_colour(maker, None if tells in ("name", "nothing") else colour),
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
    typed = name.lower() if maker.chance(0.08) else name  # its answer has the capital all the same
    said = maker.choice(phrases).format(n=typed, c=colour, C=colour.capitalize())
    return said.rstrip(".") + maker.choice(["", "!"]) if maker.chance(0.3) else said


def _ask_name(maker: Maker, name: str | None) -> Turn:
    answer = NO_NAME if name is None else f"Your name is {name}."
    thought = "The user has not told me a name." if name is None else f"The user said the name {name}."
    return Turn(maker.asked("ask-name", ASK_NAME, ALWAYS), answer, thought, "name")


def _ask_colour(maker: Maker, colour: str | None) -> Turn:
    answer = NO_COLOUR if colour is None else f"Your favourite colour is {colour}."
    thought = "The user has not told me a colour." if colour is None else f"The user said {colour}."
    return Turn(maker.asked("ask-colour", ASK_COLOUR, ALWAYS), answer, thought, "colour")
