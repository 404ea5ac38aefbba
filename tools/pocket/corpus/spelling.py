"""Words as letters: repeat, spell, reverse."""

from __future__ import annotations

from .conversation import Turn
from .maker import Maker
from .words import phrases

SPELL = phrases(
    """
    Spell {w}. | Spell the word {w}. | How do you spell {w}? | spell "{w}" | Can you spell {w}? |
    Please spell {w} | spell {w} | How is {w} spelled? | Spell {w} for me. | What are the letters of {w}? |
    Spell out {w}. | What letters are in {w}? | How do I spell {w}? | How is {w} written? |
    Spell {w} letter by letter.
    """
)
REVERSE = phrases(
    """
    Reverse {w}. | Reverse the word {w}. | Write {w} backwards. | reverse "{w}" | What is {w} backwards? |
    Spell {w} backwards. | reverse {w} | Can you reverse {w}? | Turn {w} around. | Say {w} backwards. |
    Write {w} in reverse. | Read {w} from the end. | Reverse: {w} | How is {w} written backwards?
    """
)
REPEAT = phrases(
    """
    Repeat: {w} | Say {w} | Repeat after me: {w} | repeat "{w}" | Please say: {w} | Echo: {w} | say: {w} |
    Please repeat: {w} | Say this: {w} | Say "{w}" | Echo {w}
    """
)
SEVERAL = ["Say {w} {n} times.", "Repeat {w} {n} times.", "say {w} {n} times", "Write {w} {n} times."]


def _word(maker: Maker) -> str:
    word = maker.word()
    return word.capitalize() if maker.chance(0.1) else word


def spell(maker: Maker) -> Turn:
    """The letters of a word, apart."""
    word = _word(maker)
    letters = " ".join(word)
    question = maker.loosely(maker.choice(SPELL).format(w=word))
    return Turn(question, letters, f"The letters of {word} are {letters}.", "spell")


def reverse(maker: Maker) -> Turn:
    """A word from its end; its thought spells it both ways."""
    word = _word(maker)
    thought = f"Letters: {' '.join(word)}\nBackwards: {' '.join(reversed(word))}"
    question = maker.loosely(maker.choice(REVERSE).format(w=word))
    return Turn(question, word[::-1], thought, "reverse", letterwise=True)


def repeat(maker: Maker) -> Turn:
    """Words given back unchanged, or one word several times."""
    if maker.chance(0.2):
        word = maker.word()
        count, name = maker.choice([(2, "two"), (3, "three"), (3, "three"), (4, "four")])
        question = maker.choice(SEVERAL).format(w=word, n=name)
        return Turn(question, " ".join([word] * count), f"I say {word} {name} times.", "repeat")
    count = maker.choice([1, 1, 2, 3, 4, 5])
    said = " ".join(
        maker.word() if maker.held_out or maker.chance(0.9) else str(maker.rng.randint(0, 999))
        for _ in range(count)
    )
    if maker.chance(0.05):  # the same word twice in a row must not be miscounted
        said = f"{said} {said.split()[-1]}"
    if maker.chance(0.3):
        said = said.capitalize()
    return Turn(maker.choice(REPEAT).format(w=said), said, "I repeat the words.", "repeat")
