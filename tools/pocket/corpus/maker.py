"""The source of randomness and of words that all skills share, and the rule of what is held out.

A text of a kind (a phrasing, a name, a pair of numbers) is held out when the md5 of kind and text says so.
A `Maker` for training never gives out such a text, one for evaluation gives out nothing else, wherever there
is a choice. So the rule needs no lists, and nobody can train on an evaluation prompt by accident.
"""

from __future__ import annotations

import functools
import hashlib
import random
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from . import words
from .wording import OPENINGS, Wording

if TYPE_CHECKING:
    from tokenizers import Tokenizer

T = TypeVar("T")
SYLLABLES = words.plain_words(
    """
    ba be bi bo bu ca ce co da de di do du fa fe fi fo ga ge go ha he hi ho ja jo ka ke ki ko la le li lo lu
    ma me mi mo mu na ne ni no nu pa pe pi po ra re ri ro ru sa se si so su ta te ti to tu va ve vi vo wa we
    wi za ze zo sha cha tha bra dra gra tra pla cla sta ster ton ber ling ten mar son lin der ket ser tor pen
    gar win
    """
)
ENDINGS = ["", "n", "r", "s", "t", "l", "m", "d", "k", "x", "rd", "nt", "st", "ck", "ng"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TAIL_EMOJI = words.plain_words("🙂 😀 😊 👋 🎉 🚀 🌟 💡 🤖 😄 😉 🤔 🙏 👍 ❤️ 🐱")


@functools.lru_cache(maxsize=100_000)
def is_held_out(kind: str, text: str, one_in: int = 10) -> bool:
    """True for one text in `one_in`, by the md5 of kind and lower-case text."""
    digest = hashlib.md5(f"{kind}:{text.lower()}".encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big") % one_in == 0


def bare(text: str) -> str:
    """What the hold-out rule sees of a text: no case, punctuation or emoji, unless there is nothing else."""
    letters = "".join(c if c.isalnum() or c in "+-*/" else " " for c in text.casefold() if c != "'")
    return " ".join(letters.split()) or text.strip()


def pair_is_held_out(operation: str, a: int, b: int) -> bool:
    """The rule for sums: a+b and b+a together; facts of two single digits are never held out."""
    low, high = sorted((a, b))
    return high > 9 and is_held_out(f"pair{operation}", f"{low},{high}", one_in=12)


@dataclass(frozen=True)
class Fragments:
    """Letter-only tokens of the vocabulary, to build words of which every token gets copied and spelt."""

    first: tuple[str, ...] = ()  # at a word's start, lower case
    capital: tuple[str, ...] = ()  # at a word's start, capitalised
    inner: tuple[str, ...] = ()

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Fragments:
        """Collect them from a trained tokenizer."""
        texts = [tokenizer.decode([i]) for i in range(tokenizer.get_vocab_size())]
        return cls(
            first=tuple(text[1:] for text in texts if re.fullmatch(r" [a-z]{1,6}", text)),
            capital=tuple(text[1:] for text in texts if re.fullmatch(r" [A-Z][a-z]{0,6}", text)),
            inner=tuple(text for text in texts if re.fullmatch(r"[a-z]{1,6}", text)),
        )


@dataclass
class Maker:
    """Random choices for the skills. `held_out` picks the side of the hold-out rule."""

    rng: random.Random
    fragments: Fragments = field(default_factory=Fragments)
    held_out: bool = False

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.rng.random() < probability

    def choice(self, options: Sequence[T]) -> T:
        """Any one of the options."""
        return self.rng.choice(options)

    def phrase(self, kind: str, options: Sequence[str]) -> str:
        """One of several phrasings, on this maker's side of the rule."""
        return self.rng.choice([text for text in options if is_held_out(kind, text) == self.held_out])

    def asked(self, kind: str, wording: Wording, always: Collection[str] = ()) -> str:
        """A question as typed, its bare words on this maker's side of the rule; `always` are trained."""
        while True:
            text = self.typed(wording.draw(self.rng), ["?", "?", "?", "", ".", "!", "??"])
            key = bare(text)
            if (key not in always and is_held_out(kind, key)) == self.held_out:
                return text

    def settled(self, kind: str, make: Callable[[], str]) -> str:
        """The first text from `make` whose bare words are on this maker's side of the rule.

        Dressing one template can give the words of another ("And" before "The capital of Peru?"); this keeps
        a text that is asked in evaluation out of training all the same.
        """
        while True:
            text = make()
            if is_held_out(f"{kind} text", bare(text)) == self.held_out:
                return text

    def from_list(self, kind: str, options: Sequence[str]) -> str:
        """A real name, word or city on this maker's side of the rule."""
        return self.rng.choice([text for text in options if is_held_out(kind, text) == self.held_out])

    def name(self) -> str:
        """A first name, half of them invented."""
        return self.invented(capital=True) if self.chance(0.5) else self.from_list("word", words.NAMES)

    def word(self, real: float = 0.4) -> str:
        """A lower-case word, most of them invented."""
        return self.from_list("word", words.WORDS) if self.chance(real) else self.invented()

    def city(self) -> str:
        """A city, some invented."""
        return self.from_list("word", words.CITIES) if self.chance(0.6) else self.invented(capital=True)

    def invented(self, capital: bool = False) -> str:
        """A made-up word: mostly random tokens of the vocabulary in a row, else syllables or letters."""
        while True:
            draw = self.rng.random()
            if self.fragments.first and draw < 0.7:
                start = self.choice(
                    self.fragments.capital if capital and draw < 0.35 else self.fragments.first
                )
                count = self.choice([0, 1, 1, 1, 2, 2, 3])
                word = start + "".join(self.choice(self.fragments.inner) for _ in range(count))
            elif draw < 0.92:
                count = self.choice([1, 2, 2, 2, 3, 3])
                word = "".join(self.choice(SYLLABLES) for _ in range(count)) + self.choice(ENDINGS)
            else:
                word = "".join(self.choice(LETTERS) for _ in range(self.rng.randint(3, 7)))
            if 2 < len(word) <= 12 and is_held_out("word", word) == self.held_out:
                return word.capitalize() if capital else word

    def typed(self, text: str, ends: Sequence[str]) -> str:
        """The text with one of the ends, mostly with a capital, now and then an emoji or all capitals."""
        if self.chance(0.04):
            text = text.upper()
        elif self.chance(0.55):
            text = text[0].upper() + text[1:]
        text += self.choice(ends)
        return f"{text} {self.choice(TAIL_EMOJI)}" if self.chance(0.06) else text

    def loosely(self, text: str) -> str:
        """A sentence as people type it: lower case, other punctuation, an emoji or something before it."""
        if self.chance(0.25):
            text = text[0].lower() + text[1:]
        elif self.chance(0.4):
            text = text[0].upper() + text[1:]
        if self.chance(0.2):
            text = text.rstrip(".?! ") + self.choice(["", "", "?", "!", "??", "..", " please"])
        if self.chance(0.05):
            text = f"{text} {self.choice(TAIL_EMOJI)}"
        if self.chance(0.08):
            opening = self.choice(OPENINGS)
            text = f"{opening[0].upper() if self.chance(0.6) else opening[0]}{opening[1:]} {text}"
        return text
