"""One running `qanat serve` for all tests that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.http.serving import Program, eventually, program


@pytest.fixture(scope="session")
def running() -> Iterator[Program]:
    with program("--max-batch", "8", "--max-waiting", "64", "--served-model-name", "tiny/pocket") as server:
        yield server


@pytest.fixture
def server(running: Program) -> Iterator[Program]:
    """Whatever a test does with it, nothing may be under way afterwards."""
    yield running
    for name in ("qanat_requests_inside", "qanat_sequences_running", "qanat_sequences_waiting"):
        eventually(lambda name=name: running.metric(name) == 0)
