"""One sequence through the bare model, with every row's logits: what `verify` and `explain` look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qanat.model.batch import FRESH, Batch

if TYPE_CHECKING:
    from qanat.model import TextModel

__all__ = ["Watcher", "all_logits"]

PAGE = 64


def all_logits(
    model: TextModel[Any], ids: Sequence[int], *, step: int | None = None, last_only: bool = False
) -> NDArray[np.float32]:
    """Raw logits [T, V] after each of T tokens, teacher-forced.

    Args:
        model: the text model on any backend.
        ids: T token ids, at least one.
        step: feed so many tokens at a time, through the state; None feeds all at once.
        last_only: keep only the last row of each step: a row of a large vocabulary is a megabyte.
    """
    tokens = np.asarray(ids, np.int32)
    pages = -(-len(tokens) // PAGE)
    state = model.new_state(1, pages, PAGE)
    rows = []
    width = step or len(tokens)
    for at in range(0, len(tokens), width):
        part = tokens[at : at + width]
        positions = np.arange(at, at + len(part), dtype=np.int32)
        batch = Batch(
            tokens=part,
            starts=np.array([0, len(part)], np.int32),
            cache_len=np.array([at], np.int32),
            rope_positions=np.tile(positions, (3, 1)),
            page_table=np.arange(pages, dtype=np.int32)[None],
            src_slot=np.array([0 if at else FRESH], np.int32),
            dst_slot=np.zeros(1, np.int32),
            output_rows=np.arange(len(part) - 1 if last_only else 0, len(part), dtype=np.int32),
        )
        rows.append(np.asarray(model.ops.to_numpy(model.forward(batch, state).logits)))
    return np.concatenate(rows)


@dataclass
class Reading:
    """The residual stream of the last token at one point of the model."""

    norm: float  # root mean square
    change: float  # of what was added, relative to the stream before


class Watcher:
    """A backend that passes everything on and notes the residual stream as it goes by.

    The stream is what `embed` makes and what every `linear_residual` returns: mixer and MLP, layer by layer.
    """

    def __init__(self, ops: Any) -> None:
        self.ops = ops
        self.readings: list[Reading] = []
        self._last: NDArray[np.float32] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ops, name)

    def run(self, forward: Any, batch: Batch, state: Any) -> Any:
        """Operation by operation, however the backend would do it."""
        return forward(batch, state)

    def embed(self, table: Any, tokens: NDArray[np.int32]) -> Any:
        """Rows of the table; noted."""
        return self._note(self.ops.embed(table, tokens))

    def linear_residual(self, x: Any, weight: Any, residual: Any) -> Any:
        """residual + x W^T; noted."""
        return self._note(self.ops.linear_residual(x, weight, residual))

    def _note(self, x: Any) -> Any:
        row = np.asarray(self.ops.to_numpy(x))[-1]
        before = np.zeros_like(row) if self._last is None else self._last
        change = float(np.linalg.norm(row - before) / max(float(np.linalg.norm(before)), 1e-30))
        self.readings.append(Reading(float(np.sqrt(np.mean(row * row))), change))
        self._last = row
        return x
