"""Sampling rows become the kernels' arguments, and their results become choices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qanat.backends.common.choices import check_rows, damaged_logits, nothing_to_choose, with_logprobs
from qanat.backends.common.counter_rng import uniform
from qanat.backends.cpu.kernels.sampling import CHOSEN, DAMAGED, OUT, choose_tokens
from qanat.model.sampling import Choice, SamplingRow

__all__ = ["Sampler"]

F32 = NDArray[np.float32]
Ids = NDArray[np.int32]

NO_IDS = np.empty(0, np.int32)
NO_BIASES = np.empty(0, np.float32)
NO_WORDS = np.empty(0, np.uint32)


class Sampler:
    """Chooses tokens as `qanat.backends.reference.sampling` does, and keeps the room that it needs."""

    def __init__(self) -> None:
        self._copy = np.empty(0, np.float32)
        self._counts = np.zeros(0, np.int32)
        self._buckets = np.empty(0, np.uint16)

    def sample(self, logits: F32, rows: Sequence[SamplingRow], live_vocab: int) -> list[Choice]:
        """A token for each row of raw logits [M, V]; a row may be followed by a gap to the next one.

        Ids >= live_vocab are dead vocabulary rows: never chosen (but they may be forced), never an
        alternative. Raises NumericalError when a row holds NaN or infinity, RequestError when a row's own
        options leave nothing to choose from, and ValueError for rows that do not fit the logits.
        """
        check_rows(logits, rows)
        count, vocab = logits.shape
        if not count:
            return []
        live = min(live_vocab, vocab)
        flat, stride = _flat(logits)
        arguments = _Arguments(rows, live)
        if (len(arguments.tokens) or len(arguments.words)) and len(self._copy) < live:
            self._copy = np.empty(live, np.float32)
            self._counts = np.zeros(live, np.int32)
        if arguments.whole_rows and len(self._buckets) < live:
            self._buckets = np.empty(live, np.uint16)
        out = np.empty((count, OUT), np.int64)
        peaks = np.empty(count, np.float32)
        likely = np.empty((count, arguments.alternatives), np.int64)
        choose_tokens(
            flat, stride, vocab, live, arguments.ints, arguments.numbers, arguments.tokens, arguments.biases,
            arguments.words, self._copy, self._counts, self._buckets, likely, peaks, out,
        )  # fmt: skip
        choices = []
        for m, (row, (status, token, mass)) in enumerate(zip(rows, out.tolist(), strict=True)):
            if status != CHOSEN:
                raise damaged_logits() if status == DAMAGED else nothing_to_choose()
            if row.logprobs is None:
                choices.append(Choice(token))
            else:
                ids = likely[m, : min(row.logprobs, live)].tolist()
                choices.append(with_logprobs(token, logits[m], float(peaks[m]), mass, ids))
        return choices


class _Arguments:
    """What `choose_tokens` reads about the rows."""

    def __init__(self, rows: Sequence[SamplingRow], live: int) -> None:
        self._parts: list[Ids] = []
        self._at = 0
        self.whole_rows = False
        self.alternatives = 0
        ints, numbers = [], []
        biases: list[float] = []
        words: list[NDArray[np.uint32]] = []
        word = 0
        for row in rows:
            greedy = row.temperature == 0
            alternatives = -1 if row.logprobs is None else min(row.logprobs, live)
            self.alternatives = max(self.alternatives, alternatives)
            self.whole_rows |= not greedy and not 0 < row.top_k < live
            repeats = row.repetition_penalty != 1.0
            looks_back = repeats or row.frequency_penalty or row.presence_penalty
            ints.append(
                [
                    greedy,
                    row.top_k,
                    alternatives,
                    -1 if row.forced is None else row.forced,
                    self._place(row.banned),
                    self._place(_keys(row) if row.logit_bias else NO_IDS),
                    self._place(row.prompt if repeats else NO_IDS),
                    self._place(row.output if looks_back else NO_IDS),
                    self._at,
                    len(biases),
                    word,
                    -1 if row.allowed is None else len(row.allowed),
                ]
            )
            if row.allowed is not None:
                words.append(row.allowed)
                word += len(row.allowed)
            biases += row.logit_bias.values()
            numbers.append(
                [
                    row.temperature,
                    row.top_p,
                    row.min_p,
                    0.0 if greedy else uniform(row.seed, row.choice_index, row.output_index),
                    row.repetition_penalty,
                    row.frequency_penalty,
                    row.presence_penalty,
                ]
            )
        self.ints = np.array(ints, np.int64)
        self.numbers = np.array(numbers, np.float64)
        self.tokens = np.concatenate(self._parts) if self._parts else NO_IDS
        self.words = np.concatenate(words) if words else NO_WORDS
        self.biases = np.array(biases, np.float32) if biases else NO_BIASES

    def _place(self, ids: Ids) -> int:
        """Add ids to the list; where they begin."""
        begin = self._at
        if len(ids):
            self._parts.append(ids)
            self._at += len(ids)
        return begin


def _keys(row: SamplingRow) -> Ids:
    return np.fromiter(row.logit_bias, np.int32, len(row.logit_bias))


def _flat(logits: F32) -> tuple[F32, int]:
    """The rows as one writable flat array, and the elements from one to the next; a copy only if need be."""
    stride, left = divmod(logits.strides[0], 4)
    regular = logits.strides[1] == 4 and stride >= logits.shape[1] and not left
    if not (logits.flags.writeable and (regular or logits.flags.c_contiguous)):
        logits = np.array(logits, np.float32, order="C")
    if logits.flags.c_contiguous:
        return logits.reshape(-1), logits.shape[1]
    size = stride * (len(logits) - 1) + logits.shape[1]
    return np.lib.stride_tricks.as_strided(logits, (size,), (4,)), stride
