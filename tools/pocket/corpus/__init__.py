"""The training corpus: conversations in the miniature's skills, written by these generators alone.

Each module makes the turns of one family of skills from a `Maker`, which holds the randomness, the words and
the hold-out rule; `mix` puts turns together into conversations. Nothing here knows about training.
"""

from .conversation import Conversation, Piece, ToolStep, Turn, messages, pieces, text_of
from .maker import Fragments, Maker, is_held_out, pair_is_held_out
from .mix import SKILLS, conversation, tokenizer_sample

__all__ = [
    "SKILLS",
    "Conversation",
    "Fragments",
    "Maker",
    "Piece",
    "ToolStep",
    "Turn",
    "conversation",
    "is_held_out",
    "messages",
    "pair_is_held_out",
    "pieces",
    "text_of",
    "tokenizer_sample",
]
