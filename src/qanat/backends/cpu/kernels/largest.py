"""Finding the largest of a long row in one pass: maxima of strands first, then only the strands that matter.

A strand is every sixteenth value of a chunk, one lane of its vectors: its maximum needs no step across lanes.
If k strands reach a value, so do the k largest of the row; the others lie in strands that reach it.
"""

from __future__ import annotations

import numpy as np

from qanat.backends.cpu.kernels.jit import inlined, inner
from qanat.backends.cpu.kernels.weights import CHUNK
from qanat.backends.cpu.simd import (
    LANES,
    as_i32,
    lane_max,
    load_f32,
    splat_f32,
    splat_i32,
    store_f32,
    vmax,
    zero_i32,
)
from qanat.backends.cpu.simd.arithmetic import lane_max_i32, max_i32
from qanat.backends.cpu.simd.tails import keep_first, load_first

__all__ = [
    "INFINITE",
    "first_of",
    "ids_of",
    "k_largest",
    "key_of",
    "largest_of",
    "sort",
    "strand_maxima",
    "strands",
]

LOWEST = np.float32(-np.inf)
MAGNITUDE = np.int32(0x7FFFFFFF)
INFINITE = np.int32(0x7F800000)
"""Bits of infinity: a larger magnitude is NaN."""
ID = np.uint64(0xFFFFFFFF)
HIGH = np.uint64(32)
RUN = 8
"""Keys that are sorted by insertion."""


@inlined
def strands(n):
    """How many strands n values have, the empty ones of the last chunk included."""
    return (n + CHUNK - 1) // CHUNK * LANES


@inner
def strand_maxima(x, maxima):
    """Write the maximum of each strand of x, -inf for an empty one; NaN is passed over.

    Returns the bits of the largest magnitude, from which the caller sees infinities and NaN.
    """
    worst, magnitude = zero_i32(), splat_i32(MAGNITUDE)
    for first in range(0, len(x), CHUNK):
        most = splat_f32(LOWEST)
        stop = min(first + CHUNK, len(x))
        whole = stop - (stop - first) % LANES
        for i in range(first, whole, LANES):
            v = load_f32(x, i)
            most = vmax(v, most)
            worst = max_i32(worst, as_i32(v) & magnitude)
        if whole < stop:
            v = load_first(x, whole, stop - whole)
            most = vmax(keep_first(v, splat_f32(LOWEST), stop - whole), most)
            worst = max_i32(worst, as_i32(v) & magnitude)
        store_f32(maxima, first // CHUNK * LANES, most)
    return lane_max_i32(worst)


@inner
def largest_of(maxima):
    """The largest of a row."""
    most = splat_f32(LOWEST)
    for i in range(0, len(maxima), LANES):
        most = vmax(load_f32(maxima, i), most)
    return lane_max(most)


@inner
def first_of(x, maxima, largest):
    """The lowest id of `largest`, the largest of x."""
    for first in range(0, len(x), CHUNK):
        if lane_max(load_f32(maxima, first // CHUNK * LANES)) == largest:
            for i in range(first, min(first + CHUNK, len(x))):
                if x[i] == largest:
                    return i
    return -1


@inner
def _kth(maxima, k):
    """The k-th largest, k <= len(maxima), by a heap of the k largest with the smallest on top."""
    heap = np.empty(k, np.float32)
    for i in range(k):
        heap[i] = LOWEST
    for i in range(len(maxima)):
        value = maxima[i]
        if value > heap[0]:
            at, child = 0, 1
            while child < k:
                if child + 1 < k and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= value:
                    break
                heap[at] = heap[child]
                at, child = child, 2 * child + 1
            heap[at] = value
    return heap[0]


@inlined
def key_of(value, i):
    """Ascending keys are descending values, ties by ascending id."""
    bits = np.float32(value + np.float32(0)).view(np.int32)  # -0 + 0 = +0: the two are equal
    if bits >= 0:
        bits ^= MAGNITUDE
    return (np.uint64(np.uint32(bits)) << HIGH) | np.uint64(i)


@inner
def _gather(x, maxima, divisor, bound, keys):
    """Count the finite x[i] / divisor >= bound, and write their keys if there is room for any."""
    count = 0
    for first in range(0, len(x), CHUNK):
        stop = min(first + CHUNK, len(x))
        strand = first // CHUNK * LANES
        if not lane_max(load_f32(maxima, strand)) / divisor >= bound:
            continue
        for lane in range(LANES):
            if maxima[strand + lane] / divisor >= bound:
                for i in range(first + lane, stop, LANES):
                    value = x[i] / divisor
                    if value >= bound and value > LOWEST:
                        if count < len(keys):
                            keys[count] = key_of(value, i)
                        count += 1
    return count


@inner
def sort(keys):
    """Ascending, in place: runs by insertion, then merges; what is in order already is left alone."""
    n = len(keys)
    for first in range(0, n, RUN):
        for i in range(first + 1, min(first + RUN, n)):
            key, at = keys[i], i
            while at > first and keys[at - 1] > key:
                keys[at] = keys[at - 1]
                at -= 1
            keys[at] = key
    spare = np.empty(n if n > RUN else 0, np.uint64)
    width = RUN
    while width < n:
        for first in range(0, n - width, 2 * width):
            _merge(keys, first, first + width, min(first + 2 * width, n), spare)
        width *= 2


@inner
def _merge(keys, first, middle, stop, spare):
    """Merge two sorted neighbours; the left one moves to `spare` if it has to."""
    if keys[middle - 1] <= keys[middle]:
        return
    size = middle - first
    for i in range(size):
        spare[i] = keys[first + i]
    left, right, at = 0, middle, first
    while left < size:
        if right < stop and keys[right] < spare[left]:
            keys[at] = keys[right]
            right += 1
        else:
            keys[at] = spare[left]
            left += 1
        at += 1


@inner
def ids_of(keys, count):
    """The ids in the first `count` keys."""
    ids = np.empty(count, np.int64)
    for i in range(count):
        ids[i] = np.int64(keys[i] & ID)
    return ids


@inner
def k_largest(x, maxima, divisor, k):
    """Ids of the k largest finite x / divisor and of every tie with the k-th, largest first.

    Ties by lower id. k >= 1; more than there are gives all.
    """
    bound = _kth(maxima, k) / divisor if k <= len(maxima) else LOWEST
    keys = np.empty(_gather(x, maxima, divisor, bound, np.empty(0, np.uint64)), np.uint64)
    _gather(x, maxima, divisor, bound, keys)
    sort(keys)
    count = min(k, len(keys))
    while 0 < count < len(keys) and keys[count] >> HIGH == keys[k - 1] >> HIGH:
        count += 1
    return ids_of(keys, count)
