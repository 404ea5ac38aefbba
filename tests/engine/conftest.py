"""One tiny model for all tests of this room."""

from __future__ import annotations

from pathlib import Path

import pytest

from qanat.engine.llm import LLM
from tests.engine.tiny import write_tiny


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def shared_llm(tiny_folder: Path) -> LLM:
    return LLM(tiny_folder, max_batch=4)


@pytest.fixture
def llm(shared_llm: LLM) -> LLM:
    """The shared model; whatever a test does with it, all state must be free afterwards."""
    assert shared_llm.idle
    return shared_llm


@pytest.fixture(autouse=True)
def _everything_is_free_again(request: pytest.FixtureRequest) -> object:
    llm = request.getfixturevalue("llm") if "llm" in request.fixturenames else None
    yield
    if llm is not None:
        assert llm.idle
