"""Packed weights are packed once, found again, and never taken for those of another checkpoint."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from qanat.backends.cpu.pack_cache import DATA, MANIFEST, Arrays, PackCache, cached_packs, is_sound
from qanat.errors import RequestError
from qanat.paths import clear_cache


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
    "long",
    "empty",
    "another shape",
    "another place",
    "before the file",
    "beyond the file",
    "another type",
    "no manifest",
    "other manifest",
    "no array",
    "no shape",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_pack_is_packed_again(damage: str) -> None:
    made = weights()
    folder = store(made).path
    victim = folder / DATA
    facts = json.loads((folder / MANIFEST).read_text())
    dtype, shape, offset, _ = facts["entries"][1]["arrays"]["data"]
    told = {
        "another shape": [dtype, [10**6], offset, 0],
        "another place": [dtype, shape, offset + 1, 0],
        "before the file": [dtype, shape, -64, 0],
        "beyond the file": [dtype, shape, 64 * 10**6, 0],
        "another type": ["poem", shape, offset, 0],
    }
    if damage == "gone":
        victim.unlink()
    elif damage == "short":
        victim.write_bytes(victim.read_bytes()[:-1])
    elif damage == "long":
        victim.write_bytes(victim.read_bytes() + b"x")
    elif damage == "empty":
        victim.write_bytes(b"")
    elif damage in told:
        facts["entries"][1]["arrays"]["data"] = told[damage]
        (folder / MANIFEST).write_text(json.dumps(facts))
    elif damage in ("no array", "no shape"):
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


def test_what_is_no_pack_goes_after_a_day(tmp_path: Path) -> None:
    """What a killed process left, and packs whose manifest is damaged: nobody can use either."""
    for name, age in (("unfinished-old", 10**6), ("unfinished-new", 0), ("old", 10**6), ("new", 0)):
        folder = tmp_path / "packs" / name
        folder.mkdir(parents=True)
        (folder / MANIFEST).write_text("{")
        then = time.time() - age
        os.utime(folder, (then, then))
    kept = store(weights()).path.name
    assert sorted(path.name for path in (tmp_path / "packs").iterdir()) == sorted(
        ["unfinished-new", "new", kept]
    )


def test_a_limit_of_zero_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_CACHE_LIMIT", "0")
    store(weights())
    assert cached_packs() == []


def test_a_limit_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_CACHE_LIMIT", "4 GB")
    with pytest.raises(RequestError, match="QANAT_CACHE_LIMIT must be a number of bytes"):
        store(weights())


def test_a_limit_that_is_no_number_is_refused_before_anything_is_packed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store(weights())
    monkeypatch.setenv("QANAT_CACHE_LIMIT", "-1")
    for fingerprint in ("f" * 64, "e" * 64):  # packed already, and not
        with pytest.raises(RequestError, match="QANAT_CACHE_LIMIT must be a number of bytes"):
            PackCache(fingerprint, "model", "int8")


@pytest.mark.parametrize(("packs", "left"), [(1.5, "f"), (0.5, ""), (0, ""), (2.5, "fe")])
def test_a_lower_limit_makes_room_when_nothing_is_packed_too(
    packs: float, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pack in use is the last to go, and what is mapped from it stays."""
    made = weights()
    for letter in "fed":
        os.utime(store(made, letter * 64).path / MANIFEST, (1e9 + ord(letter), 1e9 + ord(letter)))
    os.utime(PackCache("f" * 64, "model", "int8").path / MANIFEST, (1, 1))
    monkeypatch.setenv("QANAT_CACHE_LIMIT", str(int(packs * cached_packs()[0].nbytes)))
    cache = PackCache("f" * 64, "model", "int8")
    found = [cache.arrays((i, 9), refuse) for i in range(len(made))]
    cache.seal()
    assert "".join(pack.path.name[0] for pack in cached_packs()) == left
    for mapped, wanted in zip(found, made, strict=True):
        assert mapped["data"].tolist() == wanted["data"].tolist()


def test_clearing_frees_unfinished_packs_too() -> None:
    store(weights())
    unfinished = PackCache("e" * 64, "model", "int8")
    unfinished.arrays((0, 9), lambda: weights(1)[0])
    assert clear_cache() > 0
    assert clear_cache() == 0
    fresh = weights(1)[0]  # the other process goes on, and keeps nothing
    assert unfinished.arrays((1, 9), lambda: fresh) is fresh
    unfinished.seal()
    assert cached_packs() == []


def test_a_cache_that_cannot_be_written_hinders_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("QANAT_CACHE", str(tmp_path / "file" / "below"))
    store(weights())
    assert cached_packs() == []


@pytest.mark.parametrize("damage", ["random bytes", "a bit", "zeros", "the last byte"])
def test_damage_that_no_size_tells_is_found_by_reading(damage: str) -> None:
    rng, folder = np.random.default_rng(2), store(weights(size=5003)).path
    assert is_sound(folder)
    victim = folder / DATA
    data = bytearray(victim.read_bytes())
    if damage == "random bytes":
        data[-5003:] = rng.bytes(5003)
    elif damage == "a bit":
        data[-2000] ^= 16
    elif damage == "zeros":
        data[-4096:-2048] = bytes(2048)
    else:
        data[-1] ^= 1
    victim.write_bytes(data)
    cache = PackCache("f" * 64, "model", "int8")
    assert cache.hit  # as gigabytes are not read at every start
    assert not is_sound(folder)
    assert cache.drop_if_damaged()
    assert not folder.exists()


def test_a_sound_pack_is_not_dropped() -> None:
    folder = store(weights()).path
    mapped, fresh = PackCache("f" * 64, "model", "int8"), PackCache("e" * 64, "model", "int8")
    assert not mapped.drop_if_damaged()
    assert not fresh.drop_if_damaged()
    clear_cache()
    assert not mapped.drop_if_damaged()  # it is gone, but what was mapped is right
    assert not folder.exists()
