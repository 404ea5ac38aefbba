"""Run a model the ways an engine would: whole, in pieces, step by step, in a crowd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.backends.reference import ReferenceOps
from qanat.checkpoint.config import ModelConfig
from qanat.model import Batch, TextModel
from qanat.model.batch import FRESH
from qanat.model.ops import Ops

PAGE = 16
CPU_PAGE = 64
"""The one page size of the CPU backend."""


@dataclass
class Held:
    """A tensor that is already an array."""

    values: NDArray[Any]

    def array(self) -> NDArray[Any]:
        return self.values


def build(
    config: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    weights: str = "f32",
    ops: Ops[Any] | None = None,
) -> TextModel[Any]:
    text = ModelConfig.from_dict(dict(config)).text
    return TextModel(text, {k: Held(v) for k, v in tensors.items()}, ops or ReferenceOps(weights))


class Sequences:
    """Sequences with a slot and a strip of pages each; feeds them tokens, returns their logits."""

    def __init__(
        self, model: TextModel[Any], slots: int = 4, tokens: int = 320, page: int | None = None
    ) -> None:
        self.model = model
        page = page or (PAGE if isinstance(model.ops, ReferenceOps) else CPU_PAGE)
        self.strip = -(-tokens // page)
        self.state = model.new_state(slots, slots * self.strip, page)
        self.length = [0] * slots

    def feed(self, pieces: Mapping[int, Sequence[int] | NDArray[np.int32]]) -> dict[int, NDArray[np.float32]]:
        """slot -> new tokens; returns slot -> logits [T, V] of all of them."""
        slots = list(pieces)
        sizes = [len(pieces[s]) for s in slots]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        old = [self.length[s] for s in slots]
        positions = np.concatenate([np.arange(o, o + n) for o, n in zip(old, sizes, strict=True)])
        batch = Batch(
            tokens=np.concatenate([np.asarray(pieces[s], np.int32) for s in slots]),
            starts=starts,
            cache_len=np.array(old, np.int32),
            rope_positions=np.tile(positions.astype(np.int32), (3, 1)),
            page_table=np.array([np.arange(self.strip) + s * self.strip for s in slots], np.int32),
            src_slot=np.array([s if self.length[s] else FRESH for s in slots], np.int32),
            dst_slot=np.array(slots, np.int32),
            output_rows=np.arange(starts[-1], dtype=np.int32),
        )
        out = self.model.ops.to_numpy(self.model.forward(batch, self.state).logits)  # the next step's place
        for s, n in zip(slots, sizes, strict=True):
            self.length[s] += n
        return {s: out[starts[i] : starts[i + 1]] for i, s in enumerate(slots)}


def logits_of(model: TextModel[Any], pieces: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
    """Logits [sum of T, V] of one sequence read in the given pieces."""
    run = Sequences(model, slots=1, tokens=sum(map(len, pieces)))
    return np.concatenate([run.feed({0: piece})[0] for piece in pieces])
