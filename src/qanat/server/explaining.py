"""The stages between a chat request and its token ids, as the JSON that `/explain` answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from qanat.errors import ContextLengthError, TooManyTokensError
from qanat.server.answering import rendered_prompt
from qanat.server.chat_request import ChatRequest

if TYPE_CHECKING:
    from qanat.engine.core import Engine
    from qanat.text import Stages, Tokenizer

__all__ = ["EXPLAINED", "explained_prompt"]

EXPLAINED = 8192
"""Tokens of a prompt at most: the stages of one are a hundred times as long as its ids."""
LONGEST_PIECE = 256
"""Characters of a piece: each merge of it is told with all the tokens that are left."""


def explained_prompt(llm: Engine, request: ChatRequest) -> str:
    """The prompt, its stretches with their pieces and merges, and all ids.

    Raises:
        FieldError, TemplateError: as `rendered_prompt`.
        ContextLengthError: more than `EXPLAINED` tokens, or a piece of more than `LONGEST_PIECE` characters.
    """
    prompt = rendered_prompt(llm, request)
    try:
        llm.tokenizer.encode(prompt, most=EXPLAINED)
    except TooManyTokensError:
        raise ContextLengthError(
            f"the prompt has more than {EXPLAINED} tokens, which are too many to explain: shorten it"
        ) from None
    if llm.tokenizer.longest_piece(prompt) > LONGEST_PIECE:
        raise ContextLengthError(
            f"the prompt has a word of more than {LONGEST_PIECE} characters, with too many merges to tell"
        )
    return json.dumps(_object(llm.tokenizer.explain(prompt), llm.tokenizer))


def _object(stages: Stages, tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "prompt": stages.text,
        "tokens": stages.ids,
        "count": len(stages.ids),
        "vocabulary": len(tokenizer),
        "stretches": [
            {
                "text": stretch.text,
                "normalized": stretch.normalized,
                "added_token": None if stretch.added_token is None else stretch.added_token.id,
                "pieces": [
                    {
                        "text": piece.text,
                        "byte_level": piece.byte_level,
                        "merges": [
                            {
                                "rank": merge.rank,
                                "left": merge.left,
                                "right": merge.right,
                                "tokens": merge.tokens,
                            }
                            for merge in piece.merges
                        ],
                        "tokens": piece.tokens,
                        "ids": piece.ids,
                    }
                    for piece in stretch.pieces
                ],
            }
            for stretch in stages.stretches
        ],
    }
