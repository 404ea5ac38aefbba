"""Measurements in tests say nothing about speed: one thread, so that they end soon on a busy machine."""

from __future__ import annotations

from collections.abc import Iterator

import numba
import pytest


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(before)
