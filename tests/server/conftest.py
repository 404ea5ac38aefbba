"""The built-in model for all tests of this room."""

from __future__ import annotations

import pytest

from qanat.engine import LLM


@pytest.fixture(scope="session")
def pocket() -> LLM:
    return LLM("pocket", backend="reference", max_batch=4)


@pytest.fixture
def llm(pocket: LLM) -> object:
    """Whatever a test does with it, all state must be free afterwards."""
    yield pocket
    assert pocket.idle
