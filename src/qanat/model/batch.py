"""One step's work: the new tokens of several sequences, laid end to end, never padded."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["FRESH", "Batch"]

FRESH = -1
"""`src_slot` of a sequence that starts from nothing: zero conv window, zero recurrent matrix."""

Int32 = NDArray[np.int32]


@dataclass(frozen=True)
class Batch:
    """A ragged batch: B sequences that bring N new tokens in all. Prefill chunks and decode steps mix.

    tokens          [N]     int32, the new token ids, sequence after sequence
    starts          [B+1]   int32, sequence b owns rows starts[b] .. starts[b+1]-1 (at least one row)
    cache_len       [B]     int32, tokens of sequence b that the state already holds
    rope_positions  [3, N]  int32, (time, height, width) positions; three equal rows for text
    page_table      [B, P]  int32, page_table[b, i] is the KV page of tokens i*page .. (i+1)*page-1
    src_slot        [B]     int32, slot the linear-attention state is read from, or FRESH
    dst_slot        [B]     int32, slot it is written to. Equal to src_slot in plain decoding; different
                            for a fork, a snapshot or a draft: one mechanism for all of them
    output_rows     [M]     int32, rows of N whose final hidden state and logits are wanted, ascending
    """

    tokens: Int32
    starts: Int32
    cache_len: Int32
    rope_positions: NDArray[np.int32]
    page_table: NDArray[np.int32]
    src_slot: Int32
    dst_slot: Int32
    output_rows: Int32

    def __post_init__(self) -> None:
        n, b = len(self.tokens), len(self.starts) - 1
        starts = self.starts.tolist()  # in Python: for a few sequences NumPy takes longer
        empty = any(first >= stop for first, stop in pairwise(starts))
        if b < 1 or starts[0] != 0 or starts[-1] != n or empty:
            raise ValueError(f"starts {starts} do not cut {n} rows into non-empty sequences")
        for name in ("cache_len", "src_slot", "dst_slot"):
            if getattr(self, name).shape != (b,):
                raise ValueError(f"{name} has shape {getattr(self, name).shape}, expected ({b},)")
        if self.rope_positions.shape != (3, n):
            raise ValueError(f"rope_positions has shape {self.rope_positions.shape}, expected (3, {n})")
        if self.page_table.ndim != 2 or len(self.page_table) != b:
            raise ValueError(f"page_table has shape {self.page_table.shape}, expected ({b}, pages)")
        if len(set(self.dst_slot.tolist())) != b:
            raise ValueError(f"two sequences write the same slot: dst_slot {self.dst_slot.tolist()}")
        rows = self.output_rows.tolist()
        if rows and not (min(rows) >= 0 and max(rows) < n):
            raise ValueError(f"output_rows reach outside the batch's {n} rows")

    @property
    def size(self) -> int:
        """B, the number of sequences."""
        return len(self.starts) - 1
