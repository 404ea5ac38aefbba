"""On the test models every step is small, and one thread would compute it alone: here all of them do."""

from __future__ import annotations

import pytest

from qanat.backends.cpu import tape


@pytest.fixture(autouse=True)
def no_step_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "SMALL", -1)
