"""Where in a prompt a snapshot is worth its slot."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["EVERY", "snapshot_marks"]

EVERY = 1024
"""Tokens between two snapshots of a long prompt: what is read again at most when prompts begin alike."""


def snapshot_marks(ids: Sequence[int], turn: Sequence[int], *, choices: int = 1) -> list[int]:
    """Positions, ascending, after which the state of a prompt is kept. All lie within it, none at its end.

    Behind the last `<|im_start|>assistant\\n`: the next turn's prompt holds the reply as the template
    writes it into the history, without the thought and the empty thought block, so there the two part.
    Every so many tokens: prompts with one long beginning (instructions, a document) part anywhere. Before
    the last token, if several replies are wanted: each of them reads only that token for itself.

    Args:
        ids: the prompt.
        turn: the ids that open an assistant's turn; empty if the model has none.
        choices: how many replies are wanted.
    """
    marks = set(range(EVERY, len(ids), EVERY))
    if choices > 1:
        marks.add(len(ids) - 1)
    size = len(turn)
    for at in range(len(ids) - size, -1, -1) if size else ():
        if list(ids[at : at + size]) == list(turn):
            marks.add(at + size)
            break
    return sorted(mark for mark in marks if 0 < mark < len(ids))
