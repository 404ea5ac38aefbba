"""`qanat cache`: what lies on the disk can be seen and deleted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from qanat.backends.cpu.pack_cache import PackCache
from tests.cli.commands import assert_refused, invoke


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_CACHE", str(tmp_path))


def keep_a_pack() -> None:
    cache = PackCache("f" * 64, "some/model", "int8")
    cache.arrays((2, 3), lambda: {"data": np.zeros(1000, np.int8)})
    cache.seal()


def test_packs_are_listed_with_what_they_take() -> None:
    keep_a_pack()
    result = invoke("cache", "list")
    assert result.exit_code == 0
    assert result.stdout.split()[:2] == ["some/model", "int8"]
    assert "QANAT_CACHE_LIMIT" in result.stderr
    (entry,) = json.loads(invoke("cache", "list", "--json").stdout)
    assert (entry["model"], entry["weights"]) == ("some/model", "int8")
    assert entry["bytes"] > 1000


def test_clearing_says_what_it_freed_and_leaves_nothing() -> None:
    keep_a_pack()
    assert "freed" in invoke("cache", "clear").stdout
    assert json.loads(invoke("cache", "list", "--json").stdout) == []
    assert invoke("cache", "clear").stdout == "freed 0 B\n"


def test_a_senseless_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_CACHE_LIMIT", "plenty")
    assert_refused(invoke("cache", "list"), "QANAT_CACHE_LIMIT", "plenty")
