"""One token for each row of logits: the choices of `qanat.backends.reference.sampling`, which is their twin.

Most rows are read once: a pass notes the maxima of strands, checks that all values are finite, and tells
where the few candidates are. What biases and penalties touch is changed in a copy.
"""

from __future__ import annotations

import numpy as np

from qanat.backends.cpu.kernels.draw import draw_from_list, draw_from_row
from qanat.backends.cpu.kernels.jit import entry, inner
from qanat.backends.cpu.kernels.largest import (
    INFINITE,
    first_of,
    k_largest,
    largest_of,
    strand_maxima,
    strands,
)
from qanat.backends.cpu.kernels.weights import mass_of

__all__ = ["CHOSEN", "DAMAGED", "INTS", "NOTHING_LEFT", "NUMBERS", "OUT", "choose_tokens"]

CHOSEN, DAMAGED, NOTHING_LEFT = 0, 1, 2
OUT = 3
"""Results of a row: one of the three above, the token, the mass of the raw row."""
INTS = 12
"""Of a row: greedy, top_k, alternatives (-1: no log probabilities), the forced token (-1: none), then where
in `tokens` banned, biased, prompt and output ids begin, where output ends, where in `biases` the first
one lies, and where in `words` the allowed ids begin and how many words they have (-1: all are allowed)."""
NUMBERS = 7
"""Of a row: temperature, top_p, min_p, u, repetition, frequency and presence penalty."""
LOWEST = np.float32(-np.inf)
ONE = np.float32(1)


@inner
def _adjust(x, tokens, ints, m, biases, repetition, frequency, presence, counts):
    """Bans, biases and penalties, in this order, one float32 operation each; ids beyond len(x) are dead.

    counts: zeros [len(x)], and left so.
    """
    banned, biased, prompt, output, stop = ints[m, 4], ints[m, 5], ints[m, 6], ints[m, 7], ints[m, 8]
    bias = ints[m, 9] - biased
    n = len(x)
    for i in range(banned, biased):
        if tokens[i] < n:
            x[tokens[i]] = LOWEST
    for i in range(biased, prompt):
        if tokens[i] < n:
            x[tokens[i]] += biases[bias + i]
    if repetition != ONE:
        for i in range(prompt, stop):
            t = tokens[i]
            if t < n and counts[t] == 0:
                counts[t] = 1
                x[t] = x[t] * repetition if x[t] < 0 else x[t] / repetition
        for i in range(prompt, stop):
            if tokens[i] < n:
                counts[tokens[i]] = 0
    for i in range(output, stop):
        if tokens[i] < n:
            counts[tokens[i]] += 1
    for i in range(output, stop):
        t = tokens[i]
        if t < n and counts[t]:
            if frequency:
                x[t] -= frequency * np.float32(counts[t])
            if presence:
                x[t] -= presence
            counts[t] = 0


@inner
def _copy_allowed(x, copy, words, begin, count):
    """Copy x, with -inf in place of ids whose bit is not set; ids beyond the words have none.

    A word without any bit, as nearly all are where a grammar allows little, is not looked at bit by bit.
    """
    n = len(x)
    for w in range(min(count, (n + 31) // 32)):
        word, first = words[begin + w], w * 32
        stop = min(n, first + 32)
        if word == 0:
            for i in range(first, stop):
                copy[i] = LOWEST
        else:
            for i in range(first, stop):
                copy[i] = x[i] if (word >> np.uint32(i - first)) & np.uint32(1) else LOWEST
    for i in range(min(n, count * 32), n):
        copy[i] = LOWEST


@entry
def choose_tokens(logits, stride, vocab, live, ints, numbers, tokens, biases, words, copy, counts, buckets,
                  likely, peaks, out):  # fmt: skip
    """Choose a token for each of M rows of raw logits, row m at m * stride of the flat float32 array.

    Ids from `live` on are dead. ints int64 [M, INTS], numbers float64 [M, NUMBERS]; flat: tokens int32,
    biases float32, words uint32. Scratch [live], or empty where no row needs it: copy float32 and counts
    int32 (zeros, and left so) for rows with ids in `tokens` or bits in `words`, buckets uint16 for draws
    without top_k. Results: out int64 [M, OUT]; for log probabilities peaks float32 [M], the largest raw
    logit, and likely int64 [M, alternatives].
    """
    split = strands(live)
    maxima = np.empty(split + strands(vocab - live), np.float32)
    living, dead = maxima[:split], maxima[split:]
    for m in range(len(out)):
        greedy, top_k, alternatives, forced = ints[m, 0], ints[m, 1], ints[m, 2], ints[m, 3]
        top_p, min_p, u = numbers[m, 1], numbers[m, 2], numbers[m, 3]
        x = logits[m * stride : m * stride + live]
        beyond = logits[m * stride + live : m * stride + vocab]
        worst = strand_maxima(x, living)
        if max(worst, strand_maxima(beyond, dead)) >= INFINITE:
            out[m, 0] = DAMAGED
            continue
        if alternatives >= 0:
            peaks[m] = largest_of(maxima)
            out[m, 2] = mass_of(x, living, peaks[m]) + mass_of(beyond, dead, peaks[m])
        if alternatives > 0:
            ids = k_largest(x, living, ONE, alternatives)
            for i in range(alternatives):
                likely[m, i] = ids[i]
        if forced >= 0:
            out[m, 0], out[m, 1] = CHOSEN, forced
            continue
        limited = ints[m, 11] >= 0
        if limited or ints[m, 4] < ints[m, 8]:
            if limited:
                _copy_allowed(x, copy, words, ints[m, 10], ints[m, 11])
            else:
                for i in range(live):
                    copy[i] = x[i]
            x = copy[:live]
            _adjust(x, tokens, ints, m, biases, np.float32(numbers[m, 4]), np.float32(numbers[m, 5]),
                    np.float32(numbers[m, 6]), counts)  # fmt: skip
            worst = strand_maxima(x, living)
        divisor = ONE if greedy else np.float32(numbers[m, 0])
        largest = largest_of(living)
        top = largest / divisor
        if worst > INFINITE or not np.isfinite(top):
            out[m, 0] = NOTHING_LEFT
            continue
        out[m, 0] = CHOSEN
        if greedy:
            out[m, 1] = first_of(x, living, largest)
        elif 0 < top_k < live:
            ids = k_largest(x, living, divisor, top_k)
            out[m, 1] = draw_from_list(x, ids, divisor, top, top_p, min_p, u)
        else:
            out[m, 1] = draw_from_row(x, living, divisor, top, top_p, min_p, u, buckets)
