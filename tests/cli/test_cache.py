"""`qanat cache`: what lies on the disk can be seen and deleted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from qanat.backends.cpu.pack_cache import DATA, PackCache
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
    assert result.stdout.split()[:4] == ["packed", "weights", "some/model", "int8"]
    assert "QANAT_CACHE_LIMIT" in result.stderr
    (entry,) = json.loads(invoke("cache", "list", "--json").stdout)
    assert (entry["kind"], entry["model"], entry["weights"]) == ("packed weights", "some/model", "int8")
    assert entry["bytes"] > 1000


def test_other_kinds_and_unfinished_packs_are_listed_too(tmp_path: Path) -> None:
    for folder in ("kernels/abc", "packs/unfinished-abc", "qwen3.5-tokenizer-1"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_bytes(b"x" * 1000)
    entries = json.loads(invoke("cache", "list", "--json").stdout)
    assert {entry["kind"]: entry["bytes"] for entry in entries} == {
        "packed weights": 1000,
        "compiled kernels": 1000,
        "vocabulary": 1000,
    }
    assert all(entry["model"] is None for entry in entries)
    assert len(invoke("cache", "list").stdout.splitlines()) == 3


def test_checking_deletes_what_is_damaged_and_says_so() -> None:
    keep_a_pack()
    result = invoke("cache", "check")
    assert (result.exit_code, result.stdout.split()[:2]) == (0, ["sound:", "some/model"])
    (entry,) = json.loads(invoke("cache", "list", "--json").stdout)
    victim = Path(entry["folder"]) / DATA
    victim.write_bytes(victim.read_bytes()[:-100] + b"x" * 100)
    result = invoke("cache", "check")
    assert (result.exit_code, result.stdout.split()[:2]) == (1, ["damaged,", "deleted:"])
    assert json.loads(invoke("cache", "list", "--json").stdout) == []
    assert invoke("cache", "check").exit_code == 0


@pytest.mark.parametrize("command", ["list", "check", "clear"])
def test_a_cache_that_cannot_be_read_is_not_an_empty_one(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for root in (file, file / "below"):
        monkeypatch.setenv("QANAT_CACHE", str(root))
        assert_refused(invoke("cache", command), "QANAT_CACHE", str(root))


def test_clearing_says_what_it_freed_and_leaves_nothing() -> None:
    keep_a_pack()
    assert "freed" in invoke("cache", "clear").stdout
    assert json.loads(invoke("cache", "list", "--json").stdout) == []
    assert invoke("cache", "clear").stdout == "freed 0 B\n"


def test_a_senseless_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_CACHE_LIMIT", "plenty")
    assert_refused(invoke("cache", "list"), "QANAT_CACHE_LIMIT", "plenty")
