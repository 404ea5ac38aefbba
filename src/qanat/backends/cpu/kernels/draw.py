"""The cut by top_p and min_p, and the draw: over a sorted list of candidates, or over a whole row unsorted.

A row is thrown into buckets by the distance from its largest value, 64 to a unit. The masses of the buckets,
which are whole numbers and so exact, say in which one the cut lies and in which one the draw; those two alone
are sorted.
"""

from __future__ import annotations

import numpy as np

from qanat.backends.common.weights import UNIT
from qanat.backends.cpu.kernels.jit import inner
from qanat.backends.cpu.kernels.largest import ids_of, key_of, sort
from qanat.backends.cpu.kernels.weights import CHUNK, weighs_nothing, weight

__all__ = ["draw_from_list", "draw_from_row"]

BUCKETS = 2048
GRAIN = 64.0  # buckets to a unit of logit: the last one begins at 31.98 below the largest
LAST = np.uint16(BUCKETS - 1)
FARTHEST = float(BUCKETS - 1)


@inner
def _weights_of(x, ids, divisor, largest):
    """Weights [len(ids)] of x / divisor."""
    weights = np.empty(len(ids), np.int64)
    for i in range(len(ids)):
        weights[i] = weight(np.float64(x[ids[i]] / divisor) - np.float64(largest))
    return weights


@inner
def _kept_mass(weights, before, enough, least):
    """The mass of what stays: up to where `enough` is reached, or before a weight below `least`.

    weights: in descending order, and `before` what lies before them.
    """
    for i in range(len(weights)):
        w = weights[i]
        if w < least:
            break
        before += w
        if before >= enough:
            break
    return before


@inner
def _total(weights):
    total = np.int64(0)
    for i in range(len(weights)):
        total += weights[i]
    return total


@inner
def _enough(top_p, total):
    return top_p * np.float64(total) if top_p < 1 else np.inf


@inner
def _target(u, mass):
    return min(np.int64(u * np.float64(mass)), mass - 1)


@inner
def _walk(ids, weights, before, target):
    """The first id whose cumulative weight exceeds the target."""
    for i in range(len(ids)):
        before += weights[i]
        if before > target:
            return ids[i]
    return -1


@inner
def draw_from_list(x, ids, divisor, largest, top_p, min_p, u):
    """Cut and draw among `ids`, sorted by descending x / divisor; largest: the first one's."""
    weights = _weights_of(x, ids, divisor, largest)
    enough = _enough(top_p, _total(weights))
    mass = _kept_mass(weights, np.int64(0), enough, min_p * UNIT)
    return _walk(ids, weights, np.int64(0), _target(u, mass))


@inner
def _fill_buckets(x, maxima, divisor, largest, buckets, masses, lowest):
    """Note each value's bucket, and each bucket's mass and lowest weight."""
    top = np.float64(largest)
    weights = np.empty(CHUNK, np.int64)
    for first in range(0, len(x), CHUNK):
        part, where = x[first : first + CHUNK], buckets[first : first + CHUNK]
        if weighs_nothing(maxima, first, divisor, largest):
            for i in range(len(part)):
                where[i] = LAST
            lowest[LAST] = 0
            continue
        for i in range(len(part)):
            d = np.float64(part[i] / divisor) - top
            weights[i] = weight(d)
            where[i] = np.uint16(np.int32(min(d * -GRAIN, FARTHEST)))
        for i in range(len(part)):
            b = where[i]
            masses[b] += weights[i]
            lowest[b] = min(lowest[b], weights[i])


@inner
def _members(x, divisor, buckets, bucket):
    """Ids in a bucket, by descending x / divisor, ties by lower id."""
    keys = np.empty(0, np.uint64)
    for writing in range(2):
        count = 0
        for first in range(0, len(x), CHUNK):
            where = buckets[first : min(first + CHUNK, len(x))]
            found = 0
            for i in range(len(where)):
                found += where[i] == bucket
            if writing and found:
                at = count
                for i in range(len(where)):
                    if where[i] == bucket:
                        keys[at] = key_of(x[first + i] / divisor, first + i)
                        at += 1
            count += found
        if not writing:
            keys = np.empty(count, np.uint64)
    sort(keys)
    return ids_of(keys, len(keys))


@inner
def draw_from_row(x, maxima, divisor, largest, top_p, min_p, u, buckets):
    """Cut and draw among all of x; largest: of x / divisor. buckets: uint16 scratch [len(x)]."""
    masses, lowest = np.empty(BUCKETS, np.int64), np.empty(BUCKETS, np.int64)
    for b in range(BUCKETS):
        masses[b], lowest[b] = 0, np.int64(UNIT)
    _fill_buckets(x, maxima, divisor, largest, buckets, masses, lowest)
    enough, least = _enough(top_p, _total(masses)), min_p * UNIT
    kept = np.int64(0)
    for b in range(BUCKETS):
        if kept + masses[b] >= enough or lowest[b] < least:
            ids = _members(x, divisor, buckets, b)
            kept = _kept_mass(_weights_of(x, ids, divisor, largest), kept, enough, least)
            break
        kept += masses[b]
    target = _target(u, kept)
    before = np.int64(0)
    for b in range(BUCKETS):
        if before + masses[b] > target:
            ids = _members(x, divisor, buckets, b)
            return _walk(ids, _weights_of(x, ids, divisor, largest), before, target)
        before += masses[b]
    return -1
