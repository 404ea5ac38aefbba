"""How one question is worded in many ways: openings before it, endings behind it, embedded in a request.

A question in direct form ("who are you") takes openings and endings; its clause ("who you are") stands behind
a lead such as "please tell me". The product gives thousands of wordings from a few dozen; the hold-out rule
keeps one in ten for evaluation. Case, punctuation and emoji come on top (`Maker.loosely`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .words import phrases

OPENINGS = phrases(
    """
    so, | hi, | hello, | hey, | and | ok, | well, | now, | sorry, | excuse me, | just curious: |
    quick question: | one question: | Pocket, | hey Pocket, | hi there, | please, | then | but |
    I have a question: | good morning, | by the way, | hello! | hi! | okay, | um, | hi Pocket, | one more:
    """
)
ENDINGS = phrases(
    """
    exactly | really | actually | please | Pocket | anyway | by the way | then | again | now | my friend |
    in short | today | again please
    """
)
LEADS = phrases(
    """
    tell me | can you tell me | could you tell me | please tell me | I want to know | I'd like to know |
    I would like to know | do you know | let me know | please say | may I ask | can I ask | I wonder |
    will you tell me | would you tell me | I am curious | explain | please explain | I need to know |
    just tell me | could you say | can you say | do you mind telling me | I asked
    """
)


@dataclass(frozen=True)
class Wording:
    """The direct forms and the clauses of one question, without punctuation."""

    direct: Sequence[str]
    clauses: Sequence[str] = ()
    openings: Sequence[str] = tuple(OPENINGS)
    endings: Sequence[str] = tuple(ENDINGS)

    def draw(self, rng: random.Random) -> str:
        """Any one wording; a third of them are a direct form as it stands."""
        clause = self.clauses and rng.random() < 0.35
        text = f"{rng.choice(LEADS)} {rng.choice(self.clauses)}" if clause else rng.choice(self.direct)
        if rng.random() < 0.25:
            text = f"{text} {rng.choice(self.endings)}"
        if rng.random() < 0.3:
            text = f"{rng.choice(self.openings)} {text}"
        return text
