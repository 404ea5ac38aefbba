"""What qanat keeps on the disk: where it lies, that all of it is seen, and that nothing else is deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qanat import paths
from qanat.errors import RequestError
from qanat.paths import KINDS, cache_root, clear_cache, kept


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    monkeypatch.setenv("QANAT_CACHE", str(root))
    return root


def fill(root: Path) -> dict[str, int]:
    """Two things of every kind; kind -> bytes."""
    sizes = {}
    for number, (kind, (folder, beginnings)) in enumerate(KINDS.items(), 1):
        for name in ("one", "two"):
            thing = root / folder / f"{beginnings[-1]}{name}" / "deep"
            thing.mkdir(parents=True)
            (thing / "file").write_bytes(b"x" * 100 * number)
        sizes[kind] = 200 * number
    return sizes


def test_every_kind_is_seen_with_its_bytes_and_cleared(own_cache: Path) -> None:
    sizes = fill(own_cache)
    found = {kind: sum(thing.nbytes for thing in kept() if thing.kind == kind) for kind in KINDS}
    assert found == sizes
    assert clear_cache() == sum(sizes.values())
    assert kept() == []
    assert clear_cache() == 0


def test_what_is_not_ours_stays(own_cache: Path) -> None:
    """QANAT_CACHE may be any folder of the user's."""
    fill(own_cache)
    (own_cache / "thesis").mkdir()
    (own_cache / "thesis" / "chapter").write_text("all of it")
    (own_cache / "notes").write_text("dear")
    clear_cache()
    assert (own_cache / "thesis" / "chapter").exists()
    assert (own_cache / "notes").exists()


def test_the_most_recently_used_comes_first(own_cache: Path) -> None:
    for name, then, made in (("old", 1e9, 3e8), ("new", 2e9, 1e8), ("older", 5e8, 4e8)):
        folder = own_cache / "packs" / name
        folder.mkdir(parents=True)
        (folder / "data").touch()
        os.utime(folder / "data", (then, then))
        os.utime(folder, (made, made))
    assert [thing.path.name for thing in kept()] == ["new", "old", "older"]


def test_what_cannot_be_deleted_is_named(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(own_cache)
    monkeypatch.setattr(paths.shutil, "rmtree", lambda *_, **__: None)
    with pytest.raises(RequestError, match=r"packs.*could not be deleted"):
        clear_cache()


@pytest.mark.parametrize("ask", [cache_root, kept, clear_cache])
def test_a_root_that_is_a_file_is_refused(own_cache: Path, ask: object) -> None:
    own_cache.write_text("")
    with pytest.raises(RequestError, match=f"{own_cache} is a file.*QANAT_CACHE"):
        ask()  # type: ignore[operator]
    assert own_cache.read_text() == ""


def test_a_root_that_cannot_be_read_is_not_an_empty_one(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_cache.parent / "file").write_text("")
    monkeypatch.setenv("QANAT_CACHE", str(own_cache.parent / "file" / "below"))
    with pytest.raises(RequestError, match=r"below.*cannot be read.*QANAT_CACHE"):
        kept()


def test_a_home_folder_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_CACHE", "~no-such-user-here/cache")
    with pytest.raises(RequestError, match=r"~no-such-user-here/cache.*set QANAT_CACHE"):
        cache_root()


def test_a_process_without_a_home_folder_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("QANAT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(RequestError, match="set QANAT_CACHE"):
        cache_root()
