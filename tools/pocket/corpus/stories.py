"""Short stories: someone, somewhere, a problem, a friend, an end."""

from __future__ import annotations

from . import words
from .conversation import Turn
from .maker import Maker
from .words import phrases

QUESTIONS = phrases(
    """
    Tell me a story about {w}. | Tell me a short story about {w}. | Write a short story about {w}. |
    Can you tell a story about {w}? | A story about {w}, please. | story about {w} |
    Write a story about {w}. | Please tell me a story about {w}. | I would like a story about {w}. |
    Make up a story about {w}. | Tell a story about {w}. | Give me a story about {w}. |
    A tale of {w}, please. |
    Tell me something about {w} in a story. | Invent a story about {w}. | Do you know a story about {w}?
    """
)
ANY_STORY = phrases(
    """
    Tell me a story. | Tell me a short story. | A story please. | Can you tell me a story? | story |
    Write a short story. | Tell a story. | Another story. | I want to hear a story.
    """
)
PLACES = phrases(
    """
    a quiet forest | a small village | a green valley | an old castle | a sunny island | a busy city |
    a deep cave | a snowy mountain | a little garden | a wide desert | a house by the sea |
    a field of flowers
    """
)
ADJECTIVES = phrases(
    """
    little | brave | old | clever | lonely | happy | curious | shy | golden | tiny | gentle | sleepy
    """
)
TROUBLES = [
    ("could not sleep", "sang a soft song until the moon came out"),
    ("was lost in the rain", "showed the way home with a small lamp"),
    ("had no friends", "sat down and shared some bread"),
    ("wanted to see the sea", "built a boat out of an old door"),
    ("was afraid of the dark", "brought a jar full of stars"),
    ("had lost a golden key", "found it under a flat stone"),
    ("wanted to fly", "made two wings from paper and string"),
    ("was very hungry", "baked a warm apple pie"),
    ("had forgotten how to laugh", "told the silliest joke in the world"),
    ("wanted to learn a song", "taught it one note every day"),
    ("was cold in the winter", "knitted a long red scarf"),
    ("could not cross the river", "laid a row of flat stones in the water"),
]


def story(maker: Maker) -> Turn:
    """A story of four sentences about the thing that was asked for."""
    thing = maker.from_list("word", words.STORY_THINGS) if maker.chance(0.7) else maker.word()
    hero = maker.name() if maker.chance(0.3) else maker.choice(words.NAMES)
    friend = maker.choice([name for name in words.NAMES if name != hero])
    adjective, place = maker.choice(ADJECTIVES), maker.choice(PLACES)
    trouble, help_ = maker.choice(TROUBLES)
    first = maker.choice(
        [
            f"Once upon a time there was {_a(adjective)} {thing} named {hero}.",
            f"In {place} lived {_a(adjective)} {thing} named {hero}.",
            f"Long ago, {_a(adjective)} {thing} called {hero} lived in {place}.",
        ]
    )
    second = maker.choice(
        [f"One day, {hero} {trouble}.", f"But {hero} {trouble}.", f"Every night, {hero} {trouble}."]
    )
    third = maker.choice(
        [
            f"Then {friend} came by and {help_}.",
            f"A friend called {friend} heard about it and {help_}.",
            f"Luckily, {friend} {help_}.",
        ]
    )
    last = maker.choice(
        [
            f"From then on, the {thing} and {friend} were best friends.",
            f"{hero} laughed and thanked {friend}.",
            f"The {thing} was happy ever after.",
            f"And that is how {hero} and {friend} became friends.",
        ]
    )
    asked = QUESTIONS
    if not maker.held_out and thing in words.STORY_THINGS and maker.chance(0.1):
        asked = ANY_STORY  # about a real thing, since nothing in the question gives an invented one
    question = maker.loosely(maker.choice(asked).format(w=_a(thing)))
    thought = f"A short story about {_a(thing)} called {hero}, with a problem, a friend and a happy end."
    return Turn(question, f"{first} {second} {third} {last}", thought, "story")


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
