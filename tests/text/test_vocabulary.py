"""The real vocabulary is rebuilt to the byte, once per user, and its absence is explained."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assets import ROOT, SHARED, needs_shared
from qanat.errors import RequestError, TokenizerError, UnsupportedError
from qanat.paths import cache_root
from qanat.text import vocabulary
from real_tokenizer import needs_vocabulary, ours


@needs_vocabulary
@needs_shared
def test_the_built_file_is_the_published_one_to_the_byte() -> None:
    built = vocabulary.real_tokenizer_folder() / "tokenizer.json"
    assert built.read_bytes() == (SHARED / "qwen3.5" / "tokenizer.json").read_bytes()


@needs_vocabulary
@needs_shared
def test_the_built_config_agrees_with_the_published_one() -> None:
    published = json.loads((SHARED / "qwen3.5" / "2B" / "tokenizer_config.json").read_text())
    built = json.loads((vocabulary.real_tokenizer_folder() / "tokenizer_config.json").read_text())
    for key, value in built.items():
        assert value == published[key], key


@needs_vocabulary
@pytest.mark.proof
def test_the_built_file_has_the_known_digest_and_is_made_in_seconds(tmp_path: Path) -> None:
    import hashlib
    import time

    start = time.process_time()
    vocabulary.write_tokenizer_files(tmp_path / "new" / "folder")
    assert time.process_time() - start < 20
    data = (tmp_path / "new" / "folder" / "tokenizer.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == DIGEST


DIGEST = "397f3035af094b6b3c5b000a90c6830a2f1006ea7731d0adbd22d80e8ca82870"


@needs_vocabulary
def test_201_entries_have_no_merge() -> None:
    assert len(ours()._merges) == 247_587
    assert 248_044 - 256 - 247_587 == 201


def test_small_vocabularies_give_back_their_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    # "abcd" is reached by the lower ranks; "xyz" only through the later "yz"; "pqr" by no merge at all.
    tokens = [bytes([byte]) for byte in range(256)] + [b"ab", b"cd", b"abcd", b"xyz", b"yz", b"pqr"]
    merges = list(vocabulary._merges(tokens, lambda share: None))
    named = [(tokens[left], tokens[right]) for left, right in merges]
    assert named == [(b"a", b"b"), (b"c", b"d"), (b"ab", b"cd"), (b"x", b"yz"), (b"y", b"z")]


@pytest.fixture
def tiny_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A package with the bytes alone, and an empty cache folder."""
    from base64 import b64encode

    lines = [b64encode(bytes([byte])) + b" %d" % byte for byte in range(256)]
    ranks = tmp_path / "ranks.tiktoken"
    ranks.write_bytes(b"\n".join(lines))
    monkeypatch.setattr(vocabulary, "BASE_SIZE", 256)
    monkeypatch.setattr(vocabulary, "_rank_file", lambda: ranks)
    monkeypatch.setenv("QANAT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_folder_is_built_once_and_whole(tiny_build: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = vocabulary.real_tokenizer_folder()
    assert folder.parent == tiny_build
    assert sorted(path.name for path in folder.iterdir()) == [
        "SHA256SUMS",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "building" in captured.err
    before = (folder / "tokenizer.json").stat().st_mtime_ns
    assert vocabulary.real_tokenizer_folder() == folder
    assert (folder / "tokenizer.json").stat().st_mtime_ns == before
    assert capsys.readouterr().err == ""
    assert [path.name for path in tiny_build.iterdir()] == [folder.name]  # no scratch left


def test_a_build_that_fails_leaves_nothing(tiny_build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(vocabulary, "_write", fail)
    with pytest.raises(KeyboardInterrupt):
        vocabulary.real_tokenizer_folder()
    assert list(tiny_build.iterdir()) == []


def test_of_two_processes_the_slower_one_takes_the_others_files(
    tiny_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = vocabulary._write

    def overtaken(folder: Path, ranks: Path) -> None:
        write(folder, ranks)
        write_elsewhere = tiny_build / vocabulary.FOLDER
        write_elsewhere.mkdir()
        write(write_elsewhere, ranks)

    monkeypatch.setattr(vocabulary, "_write", overtaken)
    assert (vocabulary.real_tokenizer_folder() / "tokenizer.json").is_file()
    assert len(list(tiny_build.iterdir())) == 1


def test_a_file_missing_from_the_folder_is_put_back(tiny_build: Path) -> None:
    config = vocabulary.real_tokenizer_folder() / "tokenizer_config.json"
    config.unlink()
    vocabulary.real_tokenizer_folder()
    assert config.is_file()
    assert len(list(tiny_build.iterdir())) == 1


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "SHA256SUMS"])
@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\x00 garbage"])
def test_a_damaged_file_in_the_folder_is_built_again(tiny_build: Path, name: str, damage: bytes) -> None:
    file = vocabulary.real_tokenizer_folder() / name
    whole = file.read_bytes()
    file.write_bytes(damage)
    assert vocabulary.real_tokenizer_folder() == file.parent
    assert file.read_bytes() == whole


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("QANAT_CACHE", str(tmp_path / "own"))
    assert cache_root() == tmp_path / "own"
    monkeypatch.delenv("QANAT_CACHE")
    assert cache_root() == tmp_path / "xdg" / "qanat"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "qanat"


def test_a_cache_that_cannot_be_made_is_named(tiny_build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_build.write_text("a file where the folder should be")
    with pytest.raises(RequestError, match="set QANAT_CACHE"):
        vocabulary.real_tokenizer_folder()
    monkeypatch.setenv("QANAT_CACHE", str(tiny_build / "below"))
    with pytest.raises(TokenizerError, match="set QANAT_CACHE"):
        vocabulary.real_tokenizer_folder()


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("QANAT_CACHE", str(tmp_path / "cache"))
    for call in (vocabulary.real_tokenizer_folder, lambda: vocabulary.write_tokenizer_files(tmp_path)):
        with pytest.raises(UnsupportedError, match=r"qanat\[vocab\]"):
            call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"IQ== 1", b"IQ== 0\nIg== x", b"!! 0"])
def test_a_damaged_package_is_refused(
    content: bytes, tiny_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = tiny_build.parent / "bad.tiktoken"
    ranks.write_bytes(content)
    monkeypatch.setattr(vocabulary, "_rank_file", lambda: ranks)
    with pytest.raises(TokenizerError, match=r"bad\.tiktoken"):
        vocabulary.real_tokenizer_folder()


def test_importing_the_room_is_light() -> None:
    code = (
        "import sys; from qanat.text import Tokenizer; "
        "heavy = 'numpy', 'jinja2', 'numba', 'huggingface_hub', 'unicodedata'; "
        "print([name for name in heavy if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
