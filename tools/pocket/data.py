"""From conversations to batches: token ids, which of them are learnt, rows of similar length.

A row is one conversation from position 0, never packed with another, so that no recurrent state leaks between
conversations and the model never sees a start that inference does not have.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from .corpus import Conversation, Fragments, Maker, Piece, conversation, pieces

POOL = 2_000  # conversations drawn at a time, then sorted by length
MULTIPLE = 8  # padded length
LONGEST = 800


@dataclass(frozen=True)
class Batch:
    """`ids` [rows, length] int64, zero-padded on the right; `learnt` the same shape, bool."""

    ids: np.ndarray
    learnt: np.ndarray


def encode(tokenizer: Tokenizer, conversations: list[Conversation]) -> list[tuple[list[int], list[bool]]]:
    """Token ids and loss mask of each conversation.

    Cutting the text at the borders of pieces changes no token: they lie at added tokens or behind a newline.
    """
    texts: list[str] = []
    owners: list[tuple[int, bool]] = []
    for i, made in enumerate(conversations):
        for piece in pieces(made):
            for part in _parts(piece):
                texts.append(part)
                owners.append((i, piece.learnt))
    rows: list[tuple[list[int], list[bool]]] = [([], []) for _ in conversations]
    for encoding, (i, learnt) in zip(
        tokenizer.encode_batch_fast(texts, add_special_tokens=False), owners, strict=True
    ):
        ids, mask = rows[i]
        ids += encoding.ids
        mask += [learnt] * len(encoding.ids)
    return rows


def _parts(piece: Piece) -> list[str]:
    return list(piece.text) if piece.letterwise else [piece.text]


def batches(
    tokenizer: Tokenizer,
    seed: int,
    tokens_per_batch: int,
    stream: int = 0,
    late: Callable[[], bool] = lambda: False,
) -> Iterator[Batch]:
    """Endless batches of fresh conversations, the same for the same seed and stream.

    `late` says, whenever new conversations are drawn, whether the training has come to its last part.
    """
    rng = random.Random(seed if stream == 0 else f"{seed} {stream}")
    maker = Maker(rng, Fragments.of(tokenizer))
    while True:
        rows = encode(tokenizer, [conversation(maker, late()) for _ in range(POOL)])
        rows = sorted((row for row in rows if len(row[0]) <= LONGEST), key=lambda row: len(row[0]))
        groups = list(_groups(rows, tokens_per_batch))
        rng.shuffle(groups)
        yield from map(_padded, groups)


def _groups(
    rows: list[tuple[list[int], list[bool]]], tokens_per_batch: int
) -> Iterator[list[tuple[list[int], list[bool]]]]:
    group: list[tuple[list[int], list[bool]]] = []
    for row in rows:
        if group and _up(len(row[0])) * (len(group) + 1) > tokens_per_batch:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _up(length: int) -> int:
    return -(-length // MULTIPLE) * MULTIPLE


def _padded(rows: list[tuple[list[int], list[bool]]]) -> Batch:
    length = _up(max(len(ids) for ids, _ in rows))
    ids = np.zeros((len(rows), length), np.int64)
    learnt = np.zeros((len(rows), length), bool)
    for i, (row, mask) in enumerate(rows):
        ids[i, : len(row)] = row
        learnt[i, : len(row)] = mask
    return Batch(ids, learnt)
