"""The counter-based generator behind sampling."""

from __future__ import annotations

import numpy as np
import pytest

from qanat.backends.common.counter_rng import philox4x32, uniform

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # the known answers published with Philox4x32-10
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_answers(
    counter: tuple[int, int, int, int], key: tuple[int, int], expected: tuple[int, int, int, int]
) -> None:
    assert philox4x32(counter, key) == expected


def test_uniform_numbers_keep_their_recorded_bits() -> None:
    # Changing these changes every sampled reply of every user's seed.
    assert uniform(0, 0, 0).hex() == ((0x6627E8D5 << 21 | 0xE169C58D >> 11) * 2.0**-53).hex()
    assert uniform(42, 0, 0).hex() == "0x1.39d5e0a6efea9p-1"
    assert uniform(42, 1, 7).hex() == "0x1.31e3117d4a070p-2"


def test_uniform_numbers_fill_the_unit_interval_evenly() -> None:
    u = np.array([uniform(7, 0, i) for i in range(20000)])
    assert u.min() >= 0
    assert u.max() < 1
    counts = np.histogram(u, 50, (0, 1))[0]
    assert ((counts - 400) ** 2 / 400).sum() < 100  # chi-square with 49 degrees of freedom


def test_neighbouring_seeds_choices_and_places_are_unrelated() -> None:
    base = np.array([uniform(1, 0, i) for i in range(4000)])
    for other in (
        [uniform(2, 0, i) for i in range(4000)],
        [uniform(1, 1, i) for i in range(4000)],
        [uniform(1, 0, i + 1) for i in range(4000)],
    ):
        assert abs(np.corrcoef(base, np.array(other))[0, 1]) < 0.06


def test_a_negative_seed_is_its_own_stream() -> None:
    assert uniform(-1, 0, 0) == uniform(2**64 - 1, 0, 0) != uniform(1, 0, 0)
