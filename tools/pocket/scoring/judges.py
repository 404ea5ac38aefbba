"""When a reply is right: the exact text, or for stories a set of rules.

A story is sound when

- it has three sentences or more, each begins with a capital, and the last one ends;
- its first sentence names the thing that was asked for;
- no word is broken: each is one that the corpus tells stories with (its templates, places, troubles, first
  names and things), or the thing that was asked for, or the hero's name. The hero may be invented, as in one
  training story of seven: what follows "named" or "called" in the first sentence is the name, if it looks
  like one, and the story must then keep to it letter by letter.

What counts as different under sampling is the whole text.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable

from ..corpus import Maker, words
from ..corpus.stories import story

Judge = Callable[[str, str], bool]
DRAWS = 4_000  # each word of the templates comes about 50 times or more; names are added from their list
WORD = re.compile(r"[^\s.,!?]+")
HERO = re.compile(r"\b(?:named|called) ([A-Z][a-z]+)\b")


def equal(said: str, expected: str) -> bool:
    """The exact text."""
    return said == expected


def story_about(thing: str) -> Judge:
    """The judge of stories about a thing."""
    return lambda said, _: story_is_sound(said, thing)


def story_is_sound(said: str, thing: str) -> bool:
    """Whether a story keeps all of the rules above."""
    sentences = re.split(r"(?<=\.) ", said)
    if len(sentences) < 3 or not all(re.fullmatch(r"[A-Z][^.]*\.", sentence) for sentence in sentences):
        return False
    if thing not in WORD.findall(sentences[0]):
        return False
    hero = HERO.search(sentences[0])
    known = story_words() | {thing} | ({hero[1]} if hero else set())
    return all(word in known or word[0].lower() + word[1:] in known for word in WORD.findall(said))


@functools.cache
def story_words() -> frozenset[str]:
    """All words that stories of the corpus are told with, without invented ones."""
    maker = _RealWords(random.Random(0))
    told = [story(maker).answer for _ in range(DRAWS)]
    return frozenset([word for text in told for word in WORD.findall(text)] + words.NAMES)


class _RealWords(Maker):
    """Gives out names where the corpus would invent one, and things of the stories for words."""

    def invented(self, capital: bool = False) -> str:
        return self.choice(words.NAMES if capital else words.STORY_THINGS)

    def word(self, real: float = 0.4) -> str:
        return self.choice(words.STORY_THINGS)
