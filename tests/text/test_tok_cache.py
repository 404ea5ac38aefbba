"""The tables of a large tokenizer.json are kept between starts, and change nothing but the time they take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qanat.errors import TokenizerError
from qanat.text import Tokenizer, tokenizer_cache
from real_tokenizer import tiny_tokenizer_json, write_folder

MERGES = ["a b", "ab c", "\u0120 a", "a b", "\u00e9 \u0120"]
ADDED = [
    {"content": "<x>", "special": True, "lstrip": True},
    {"content": "e\u0301", "normalized": True},
    {"content": "half \ud800"},
]
CONFIG = {
    "added_tokens_decoder": {"900": {"content": "<|end|>", "special": True}},
    "eos_token": "<|end|>",
    "extra_special_tokens": {"image_token": "<x>"},
}
TEXT = "abc a b <x> \u00e9 e\u0301 <|end|> 水 \U0001f984 zab"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QANAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tokenizer_cache, "LARGE", 1)
    return tmp_path / "cache" / "tokenizers"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    data = tiny_tokenizer_json(merges=MERGES, added=ADDED)
    data["model"]["vocab"]["half \udfff\n"] = 800
    return write_folder(tmp_path / "model", data, CONFIG)


def forbid_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(*_: object) -> None:
        raise AssertionError("parsed again")

    monkeypatch.setattr(tokenizer_cache, "parse_tokenizer_files", parse)


def facts(tokenizer: Tokenizer) -> dict[str, Any]:
    """All that can be asked of a tokenizer."""
    ids = tokenizer.encode(TEXT)
    every = [*range(len(tokenizer) + 3), 800, 900, 2**40]
    return {
        "ids": ids,
        "offsets": tokenizer.encode_with_offsets(TEXT),
        "plain": tokenizer.encode(TEXT, split_special_tokens=True),
        "explained": tokenizer.explain(TEXT),
        "decoded": tokenizer.decode(ids, skip_special_tokens=True),
        "bytes": [tokenizer.token_bytes(token) for token in every],
        "vocab": dict(tokenizer.vocab),
        "size": len(tokenizer),
        "largest": tokenizer.largest_id,
        "added": tokenizer.added_tokens,
        "special": (tokenizer.special_ids, tokenizer.special_tokens_map, tokenizer.eos_token_id),
        "found": [tokenizer.token_id(text) for text in ("<x>", "abc", "nowhere")],
    }


def test_what_is_kept_gives_the_same_tokenizer_without_parsing(
    folder: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = facts(Tokenizer.from_folder(folder))
    assert parsed["largest"] == 900
    assert parsed["size"] == len(parsed["vocab"])
    (kept,) = own_cache.iterdir()
    forbid_parsing(monkeypatch)
    assert facts(Tokenizer.from_folder(folder)) == parsed
    assert list(own_cache.iterdir()) == [kept]  # no scratch left


def test_damage_anywhere_is_noticed_and_mended(folder: Path, own_cache: Path) -> None:
    expected = Tokenizer.from_folder(folder).encode(TEXT)
    (kept,) = own_cache.iterdir()
    whole = kept.read_bytes()
    for place in range(0, len(whole), 101):
        flipped = whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :]
        for damaged in (flipped, whole[:place]):
            kept.write_bytes(damaged)
            assert Tokenizer.from_folder(folder).encode(TEXT) == expected
            assert kept.read_bytes() == whole


def test_a_file_that_changes_in_place_is_read_again(folder: Path) -> None:
    first = Tokenizer.from_folder(folder)
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text.replace('"a b"', '"b a"').replace('"ab"', '"ba"'))
    # "ab c" has lost its left half: it must not be remembered either
    with pytest.raises(TokenizerError, match=r"merges\[1\]"):
        Tokenizer.from_folder(folder)
    (folder / "tokenizer.json").write_text(text)
    (folder / "tokenizer_config.json").write_text(json.dumps(CONFIG).replace("<|end|>", "<|fin|>"))
    again = Tokenizer.from_folder(folder)
    assert (first.token_id("<|end|>"), again.token_id("<|end|>"), again.eos_token_id) == (900, None, 900)


def test_without_the_config_nothing_of_it_remains(folder: Path) -> None:
    assert Tokenizer.from_folder(folder).eos_token_id == 900
    (folder / "tokenizer_config.json").unlink()
    assert Tokenizer.from_folder(folder).eos_token_id is None


def test_what_is_refused_is_refused_every_time_and_not_kept(folder: Path, own_cache: Path) -> None:
    data = tiny_tokenizer_json(merges=["a z"])
    del data["model"]["vocab"]["az"]
    write_folder(folder, data)
    for _ in range(2):
        with pytest.raises(TokenizerError, match="not a pair of tokens"):
            Tokenizer.from_folder(folder)
    assert not own_cache.exists()


def test_a_small_file_is_not_kept(folder: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_cache, "LARGE", (folder / "tokenizer.json").stat().st_size + 1)
    Tokenizer.from_folder(folder)
    assert not own_cache.exists()


def test_without_a_place_to_write_it_works_all_the_same(folder: Path, own_cache: Path) -> None:
    own_cache.parent.mkdir()
    own_cache.write_text("a file where the folder should be")
    assert Tokenizer.from_folder(folder).eos_token_id == 900


def test_of_many_the_longest_unused_go(
    folder: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_cache, "KEPT", 2)
    for merges in (["a b"], ["b c"], ["c d"]):
        Tokenizer.from_folder(write_folder(folder, tiny_tokenizer_json(merges=merges)))
    assert len(list(own_cache.iterdir())) == 2
    forbid_parsing(monkeypatch)
    assert Tokenizer.from_folder(folder).token_id("cd") is not None
