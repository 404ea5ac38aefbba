"""Which tokens of which sequences one step computes, laid out as a ragged `Batch`."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from itertools import accumulate, chain, islice
from typing import Any

import numpy as np

from qanat.engine.memory import PROMPT_ROWS
from qanat.engine.sequence import Sequence
from qanat.errors import QanatError
from qanat.model.batch import Batch
from qanat.model.sampling import Choice, SamplingRow

__all__ = ["MIXED_TOKENS", "Work", "build_batch", "share_tokens"]

MIXED_TOKENS = 64
"""The most prompt tokens of a step that also decodes: as many as fill a kernel's tiles, and a short wait."""


class Work:
    """The next `count` known tokens of a sequence.

    chooses: whether these are its last known tokens, so that the next one is chosen after this step.
    fresh: tokens of the reply among these that were never computed before.
    output_rows: those of these tokens whose logits are wanted, ascending; `sampling_rows` says what for.
    """

    def __init__(self, sequence: Sequence, count: int) -> None:
        self.sequence = sequence
        self.count = count
        end = sequence.computed + count
        self.chooses = end == sequence.length
        self.fresh = max(0, end - max(sequence.computed, sequence.prompt_len, sequence.reached))
        self._output_len = sequence.output_len
        self.scored = sequence.scored(count)
        self.output_rows = [*self.scored, count - 1] if self.chooses else [*self.scored]

    def sampling_rows(self) -> list[SamplingRow]:
        """What is asked about each of the output rows."""
        rows = [self.sequence.prompt_row(row) for row in self.scored]
        return [*rows, self.sequence.sampling_row()] if self.chooses else rows

    @property
    def written(self) -> int:
        """Tokens that the reply has gained by it."""
        return self.sequence.output_len - self._output_len

    @property
    def begins(self) -> bool:
        """Whether the first of the reply is among them."""
        return self.written > 0 and not self._output_len

    def take(self, choices: Iterator[Choice | QanatError]) -> None:
        """The output rows' choices, one after the other, go to the sequence; an error ends it."""
        mine = list(islice(choices, len(self.output_rows)))
        chosen = [choice for choice in mine if isinstance(choice, Choice)]
        if len(chosen) < len(mine):
            self.sequence.fail(next(choice for choice in mine if not isinstance(choice, Choice)))
            return
        self.sequence.prompt_choices += chosen[: len(self.scored)]
        if self.chooses:
            self.sequence.accept(chosen[-1])


def share_tokens(running: Seq[Sequence], budget: int, mixed: int = MIXED_TOKENS) -> list[Work]:
    """Give a step's token budget to the running sequences.

    Each gets one token, so nobody is stalled: those that decode need no more. Half of what is left goes to
    the first of the others, the rest in equal parts to all that read, the shortest first: a short prompt is
    not stalled by a long one either. Of prompts whose log probabilities are wanted, at most PROMPT_ROWS.

    Args:
        running: in the order of their rank; no more than `budget`.
        budget: the most tokens in all.
        mixed: the most tokens of prompts if anything decodes (but at least one for each that reads).

    Returns:
        Work in the order of `running`.
    """
    counts = {id(s): 1 for s in running}
    reading = [s for s in running if s.missing > 1]
    left = budget - len(running)
    if len(reading) < len(running):
        left = min(left, max(0, mixed - len(reading)))
    for first in reading[:1]:
        more = min(first.next_chunk - 1, left // 2)
        counts[id(first)] += more
        left -= more
    by_size = sorted(reading, key=lambda s: s.next_chunk)
    for place, s in enumerate(by_size):
        more = min(s.next_chunk - counts[id(s)], -(-left // (len(by_size) - place)))
        counts[id(s)] += more
        left -= more
    work, rows = [], PROMPT_ROWS
    for s in running:
        count = s.cut(counts[id(s)], rows)
        if count:
            work.append(Work(s, count))
            rows -= len(work[-1].scored)
    return work


def build_batch(work: Seq[Work]) -> Batch:
    """Lay the work out. The sequences have the pages that its tokens need."""
    tokens: list[int] = []
    positions: list[int] = []
    starts, output_rows = [0], []
    for w in work:
        output_rows += [len(tokens) + row for row in w.output_rows]
        tokens += w.sequence.pending(w.count).tolist()
        positions += range(w.sequence.computed, w.sequence.computed + w.count)
        starts.append(len(tokens))
    held = [w.sequence.pages for w in work]
    width = max(map(len, held))
    # One array, cut into pieces: after a step every small call to NumPy finds cold caches.
    parts: list[list[Any]] = [
        tokens,
        starts,
        [w.sequence.computed for w in work],
        positions * 3,
        [page for pages in held for page in pages + [0] * (width - len(pages))],
        [w.sequence.source for w in work],
        [w.sequence.slot for w in work],
        output_rows,
    ]
    whole = np.array(list(chain.from_iterable(parts)), np.int32)
    ends = list(accumulate(map(len, parts)))
    cut = [whole[end - len(part) : end] for end, part in zip(ends, parts, strict=True)]
    return Batch(
        tokens=cut[0],
        starts=cut[1],
        cache_len=cut[2],
        rope_positions=cut[3].reshape(3, -1),
        page_table=cut[4].reshape(len(work), width),
        src_slot=cut[5],
        dst_slot=cut[6],
        output_rows=cut[7],
    )
