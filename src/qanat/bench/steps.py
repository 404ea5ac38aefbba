"""Steps of the bare model, without requests: so many new tokens after so many old ones."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from qanat.backends import PackSource, open_backend, storage
from qanat.backends.cpu.state import PAGE, AttentionState, CpuState
from qanat.checkpoint import Checkpoint, sizes
from qanat.checkpoint.config import TextConfig
from qanat.model import Batch, TextModel
from qanat.model.batch import FRESH

__all__ = ["Sequences", "bytes_read", "bytes_read_here", "open_model", "operations"]


def open_model(checkpoint: Checkpoint, weights: str, threads: int | None) -> TextModel[Any]:
    """The text model on the CPU backend, from its packed weights if they are kept, else they are now."""
    ops = open_backend(
        "cpu",
        weights=weights,
        threads=threads,
        pack=PackSource(checkpoint.fingerprint, checkpoint.name),
    )
    return TextModel(checkpoint.config.text, checkpoint.tensors, ops)


class Sequences:
    """`count` sequences in a state of their own, each with `context` tokens behind it.

    The context is not read: its keys and values are random numbers of ordinary size, which cost a step what
    real ones would.

    Args:
        model: on the CPU backend.
        count: sequences that take part in every step.
        context: tokens behind each.
        room: tokens that each may still take.
    """

    def __init__(self, model: TextModel[Any], count: int, context: int, room: int) -> None:
        self._model, self._count, self._length, self._most = model, count, context, context + room
        pages = -(-self._most // PAGE)
        self._table = np.arange(count * pages, dtype=np.int32).reshape(count, pages)
        self._slots = np.arange(count, dtype=np.int32)
        self._fresh = True
        self._tokens = np.random.default_rng(0).integers(0, model.config.vocab_size, count * (room or 1))
        state = model.new_state(count, count * pages, PAGE)
        assert isinstance(state, CpuState)
        self._state = state
        if context:
            _fill(state)

    def step(self, tokens: int = 1) -> NDArray[np.float32]:
        """Read `tokens` new tokens of each sequence; the logits [count, V] after them."""
        n, at = self._count * tokens, self._length
        assert at + tokens <= self._most
        starts = np.arange(0, n + 1, tokens, dtype=np.int32)
        positions = np.tile(np.arange(at, at + tokens, dtype=np.int32), self._count)
        batch = Batch(
            tokens=self._tokens[:n].astype(np.int32),
            starts=starts,
            cache_len=np.full(self._count, at, np.int32),
            rope_positions=np.tile(positions, (3, 1)),
            page_table=self._table,
            src_slot=np.full(self._count, FRESH, np.int32) if self._fresh else self._slots,
            dst_slot=self._slots,
            output_rows=starts[1:] - 1,
        )
        self._length, self._fresh = at + tokens, False
        logits: NDArray[np.float32] = self._model.forward(batch, self._state).logits
        return logits

    def read(self, tokens: int, chunk: int) -> None:
        """Read `tokens` new tokens of each sequence, at most `chunk` of each in a step."""
        for begin in range(0, tokens, chunk):
            self.step(min(chunk, tokens - begin))


def _fill(state: CpuState) -> None:
    """Random keys and values everywhere: untouched memory would all be one page of zeros, in a cache."""
    numbers = np.random.default_rng(0).standard_normal(1 << 20).astype(np.float32)
    for layer in state.layers:
        if isinstance(layer, AttentionState):
            for array in (layer.keys, layer.values):
                values = numbers
                if array.dtype == np.uint16:
                    values = numbers.astype(ml_dtypes.bfloat16).view(np.uint16)
                flat = array.reshape(-1)
                for begin in range(0, len(flat), len(values)):
                    part = flat[begin : begin + len(values)]
                    part[:] = values[: len(part)]


def bytes_read(config: TextConfig, weight: float, key_value: int, context: int, count: int) -> float:
    """Bytes that a step of one token for each of `count` sequences must read.

    Weights once; recurrent matrices, keys and values for each sequence. What is written, and activations,
    which stay in the caches, are not counted.

    Args:
        config: the model.
        weight, key_value: bytes of one stored number, scales included.
        context: tokens behind each sequence.
        count: sequences.
    """
    weights = sizes.bytes_read_per_token(config, 1) * weight
    state = sizes.recurrent_state_bytes(config) + context * sizes.kv_bytes_per_token(config, key_value)
    return weights + count * state


def bytes_read_here(config: TextConfig, weights: str, context: int, count: int) -> float:
    """`bytes_read` in a mode of the CPU backend."""
    kept = storage("cpu", weights)
    return bytes_read(config, kept.weight, kept.key_value, context, count)


def operations(config: TextConfig, tokens: int) -> float:
    """Multiplications and additions of the linear layers for `tokens` tokens of a prompt.

    The head computes one row, whatever the prompt; mixers, a few percent, are not counted.
    """
    head = config.vocab_size * config.hidden_size
    return 2.0 * ((sizes.bytes_read_per_token(config, 1) - head) * tokens + head)
