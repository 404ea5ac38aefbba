"""Which tokens of which sequences one step computes, laid out as a ragged `Batch`."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np

from qanat.engine.pools import PagePool
from qanat.engine.sequence import Sequence
from qanat.model.batch import FRESH, Batch

__all__ = ["Work", "build_batch", "share_tokens"]


@dataclass(frozen=True)
class Work:
    """The next `count` known tokens of a sequence."""

    sequence: Sequence
    count: int

    @property
    def chooses(self) -> bool:
        """Whether these are its last known tokens, so that the next one is chosen after this step."""
        return self.sequence.computed + self.count == self.sequence.length


def share_tokens(running: Seq[Sequence], budget: int) -> list[Work]:
    """Give a step's token budget to the running sequences, in the order of their admission.

    Sequences that decode get their one token first, so a long prompt never stalls them; prompts share
    what is left, in chunks, the oldest first.
    """
    decoding = [s for s in running if s.length - s.computed == 1]
    work = [Work(s, 1) for s in decoding]
    left = budget - len(work)
    for s in running:
        missing = s.length - s.computed
        if missing > 1 and left > 0:
            work.append(Work(s, min(missing, left)))
            left -= work[-1].count
    return work


def build_batch(work: Seq[Work], pool: PagePool) -> Batch:
    """Lay the work out, taking the pages that its tokens need out of the sequences' reservations."""
    counts = [w.count for w in work]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    positions = np.concatenate([np.arange(w.count) + w.sequence.computed for w in work]).astype(np.int32)
    for w in work:
        s = w.sequence
        while len(s.pages) < pool.pages_for(s.computed + w.count):
            s.pages.append(pool.take())
            s.reserved -= 1
    table = np.zeros((len(work), max(len(w.sequence.pages) for w in work)), np.int32)
    for row, w in zip(table, work, strict=True):
        row[: len(w.sequence.pages)] = w.sequence.pages
    slots = np.array([w.sequence.slot for w in work], np.int32)
    fresh = np.array([w.sequence.computed == 0 for w in work])
    return Batch(
        tokens=np.concatenate([w.sequence.pending(w.count) for w in work]),
        starts=starts,
        cache_len=np.array([w.sequence.computed for w in work], np.int32),
        rope_positions=np.tile(positions, (3, 1)),
        page_table=table,
        src_slot=np.where(fresh, FRESH, slots).astype(np.int32),
        dst_slot=slots,
        output_rows=np.array([starts[i + 1] - 1 for i, w in enumerate(work) if w.chooses], np.int32),
    )
