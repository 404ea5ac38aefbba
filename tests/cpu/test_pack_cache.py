"""Packed weights are packed once, found again, and never taken for those of another checkpoint."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from qanat.backends.cpu.pack_cache import MANIFEST, Arrays, PackCache, cached_packs, clear_packs
from qanat.errors import RequestError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_CACHE", str(tmp_path))


def weights(count: int = 3, size: int = 100) -> list[Arrays]:
    rng = np.random.default_rng(1)
    return [
        {"data": rng.integers(-9, 9, size).astype(np.int8), "scales": rng.integers(0, 9, 7).astype(np.uint16)}
        for _ in range(count)
    ]


def store(made: list[Arrays], fingerprint: str = "f" * 64, weights: str = "int8") -> PackCache:
    cache = PackCache(fingerprint, "model", weights)
    for i, arrays in enumerate(made):
        cache.arrays((i, 9), lambda arrays=arrays: arrays)  # type: ignore[misc]
    cache.seal()
    return cache


def refuse() -> Arrays:
    raise AssertionError("packed again")


def is_found(made: list[Arrays], fingerprint: str = "f" * 64) -> bool:
    cache = PackCache(fingerprint, "model", "int8")
    if not cache.hit:
        return False
    for i, arrays in enumerate(made):
        found = cache.arrays((i, 9), refuse)
        assert {name: array.tolist() for name, array in found.items()} == {
            name: array.tolist() for name, array in arrays.items()
        }
        assert all(array.ctypes.data % 64 == 0 for array in found.values())
    return True


def test_what_was_packed_once_is_mapped_the_next_time() -> None:
    made = weights()
    assert not store(made).hit
    assert is_found(made)


def test_another_checkpoint_or_mode_is_another_pack() -> None:
    store(weights())
    assert not PackCache("e" * 64, "model", "int8").hit
    assert not PackCache("f" * 64, "model", "bf16").hit
    # Names share their first letters, contents decide.
    assert not PackCache("f" * 24 + "0" * 40, "model", "int8").hit


def test_an_unfinished_pack_is_not_found() -> None:
    cache = PackCache("f" * 64, "model", "int8")
    cache.arrays((0, 9), lambda: weights(1)[0])
    assert not PackCache("f" * 64, "model", "int8").hit
    assert cached_packs() == []


DAMAGES = [
    "gone",
    "short",
    "another shape",
    "no header",
    "no manifest",
    "other manifest",
    "no array",
    "no shape",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_pack_is_packed_again(damage: str) -> None:
    made = weights()
    folder = store(made).path
    victim = folder / "0001.data.npy"
    if damage == "gone":
        victim.unlink()
    elif damage == "short":
        victim.write_bytes(victim.read_bytes()[:-1])
    elif damage == "another shape":  # the same length: the header says one element, and spaces fill it up
        victim.write_bytes(victim.read_bytes().replace(b"(100,), }", b"(1,), }  ", 1))
    elif damage == "no header":
        victim.write_bytes(b"X" * victim.stat().st_size)
    elif damage in ("no array", "no shape"):
        facts = json.loads((folder / MANIFEST).read_text())
        facts["entries"][1]["arrays" if damage == "no array" else "shape"] = {}
        (folder / MANIFEST).write_text(json.dumps(facts))
    elif damage == "no manifest":
        (folder / MANIFEST).unlink()
    else:
        (folder / MANIFEST).write_text('{"entries": 7}')
    assert not is_found(made)
    store(made)
    assert is_found(made)


def test_weights_in_another_order_are_packed_anew() -> None:
    store(weights())
    cache = PackCache("f" * 64, "model", "int8")
    fresh = weights(1, 50)[0]
    assert cache.arrays((77, 9), lambda: fresh) is fresh
    assert not cache.hit


def test_the_longest_unused_packs_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    for age, letter in enumerate("abc"):
        os.utime(store(weights(), letter * 64).path / MANIFEST, (1e9 - age, 1e9 - age))
    one = cached_packs()[0].nbytes
    monkeypatch.setenv("QANAT_CACHE_LIMIT", str(int(2.5 * one)))
    store(weights(), "d" * 64)
    assert [pack.path.name[0] for pack in cached_packs()] == ["d", "a"]


def test_weights_that_cannot_be_packed_leave_nothing_behind(tmp_path: Path) -> None:
    cache = PackCache("f" * 64, "model", "int8")
    cache.arrays((0, 9), lambda: weights(1)[0])
    with pytest.raises(AssertionError):
        cache.arrays((1, 9), refuse)
    assert not list((tmp_path / "packs").iterdir())


def test_what_a_killed_process_left_goes_after_a_day(tmp_path: Path) -> None:
    for name, age in (("unfinished-old", 10**6), ("unfinished-new", 0)):
        folder = tmp_path / "packs" / name
        folder.mkdir(parents=True)
        then = time.time() - age
        os.utime(folder, (then, then))
    store(weights())
    assert sorted(path.name for path in (tmp_path / "packs").glob("unfinished-*")) == ["unfinished-new"]


def test_a_limit_of_zero_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_CACHE_LIMIT", "0")
    store(weights())
    assert cached_packs() == []


def test_a_limit_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_CACHE_LIMIT", "4 GB")
    with pytest.raises(RequestError, match="QANAT_CACHE_LIMIT must be a number of bytes"):
        store(weights())


def test_clearing_frees_unfinished_packs_too() -> None:
    store(weights())
    PackCache("e" * 64, "model", "int8").arrays((0, 9), lambda: weights(1)[0])
    assert clear_packs() > 0
    assert clear_packs() == 0


def test_a_cache_that_cannot_be_written_hinders_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("QANAT_CACHE", str(blocked))
    store(weights())
    assert cached_packs() == []
