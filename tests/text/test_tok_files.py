"""tokenizer.json: both forms of merges are read; damage and foreign parts are refused by name."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qanat.errors import QanatError, TokenizerError
from qanat.text import Tokenizer
from real_tokenizer import tiny_tokenizer_json, write_folder

MERGES = ["a b", "ab c", "\u0120 a"]
Data = dict[str, Any]


def load(folder: Path, data: Any, config: Any = None) -> Tokenizer:
    return Tokenizer.from_folder(write_folder(folder, data, config))


def refusal(folder: Path, data: Any, config: Any = None) -> str:
    with pytest.raises(TokenizerError) as caught:
        load(folder, data, config)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message or "splitting pattern" in message
    return message


def test_merges_as_strings_and_as_pairs_are_the_same(tmp_path: Path) -> None:
    data = tiny_tokenizer_json(merges=MERGES)
    by_strings = load(tmp_path, data).encode("abc a b")
    data["model"]["merges"] = [merge.split(" ") for merge in MERGES]
    assert load(tmp_path, data).encode("abc a b") == by_strings


def test_the_two_files_are_enough_and_the_config_may_be_missing(tmp_path: Path) -> None:
    tokenizer = load(tmp_path, tiny_tokenizer_json(merges=MERGES))
    assert (len(tokenizer), tokenizer.largest_id) == (259, 258)
    assert tokenizer.eos_token_id is None
    assert tokenizer.special_tokens_map == {}


def test_the_config_adds_tokens_and_names_roles(tmp_path: Path) -> None:
    config = {
        "added_tokens_decoder": {"259": {"content": "<|end|>", "special": True}},
        "eos_token": {"content": "<|end|>"},
        "bos_token": None,
        "extra_special_tokens": {"image_token": "<|image|>"},
    }
    tokenizer = load(tmp_path, tiny_tokenizer_json(merges=MERGES), config)
    assert tokenizer.encode("a<|end|>")[-1] == tokenizer.eos_token_id == 259
    assert tokenizer.special_tokens_map == {"eos_token": "<|end|>", "image_token": "<|image|>"}
    assert tokenizer.special_ids == {259}


def test_without_a_normalizer_nothing_is_composed(tmp_path: Path) -> None:
    data = tiny_tokenizer_json()
    data["normalizer"] = None
    tokenizer = load(tmp_path, data)
    assert tokenizer.decode(tokenizer.encode("e\u0301")) == "e\u0301"
    assert [span[1:] for span in tokenizer.encode_with_offsets("e\u0301")] == [(0, 1), (1, 2), (1, 2)]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe\xfa", "not JSON"),
        (b"[]", "must hold a JSON object, not a list"),
        (b"[" * 200_000, "not JSON"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12807982\n", "not JSON"),
        (b"{}", "damaged|not supported"),
    ],
)
def test_damaged_json_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(TokenizerError, match=says):
        Tokenizer.from_folder(tmp_path)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: no such file"):
        Tokenizer.from_folder(tmp_path / "nowhere")
    (tmp_path / "tokenizer.json").mkdir()
    with pytest.raises(TokenizerError, match="cannot be read"):
        Tokenizer.from_folder(tmp_path)


def test_a_broken_link_is_not_a_missing_file(tmp_path: Path) -> None:
    write_folder(tmp_path, tiny_tokenizer_json(merges=MERGES))
    (tmp_path / "tokenizer_config.json").symlink_to("nowhere")
    with pytest.raises(TokenizerError, match="a link to a file that is not there"):
        Tokenizer.from_folder(tmp_path)


def put(*path: Any) -> Callable[[Data], None]:
    """`put(key, key, ..., value)` sets a value deep in the data."""

    def change(data: Data) -> None:
        *keys, last, value = path
        for key in keys:
            data = data[key]
        data[last] = value

    return change


def drop(*path: Any) -> Callable[[Data], None]:
    def change(data: Data) -> None:
        *keys, last = path
        for key in keys:
            data = data[key]
        del data[last]

    return change


STEPS = ("pre_tokenizer", "pretokenizers")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("surprise", 1), "surprise is not supported"),
        (put("truncation", {"max_length": 3}), "truncation"),
        (put("padding", {"pad_id": 0}), "padding"),
        (put("normalizer", {"type": "NFKC"}), "normalizer 'NFKC' is not"),
        (put("normalizer", "NFC"), "normalizer must be an object"),
        (put("normalizer", "strip", True), "normalizer.strip"),
        (put("pre_tokenizer", None), "pre_tokenizer None"),
        (put("pre_tokenizer", {"type": "Whitespace"}), "pre_tokenizer 'Whitespace'"),
        (put(*STEPS, []), "pre_tokenizer of no steps"),
        (put(*STEPS, 5), "must be a list"),
        (put(*STEPS, [{"type": "Digits"}]), "pre_tokenizer Digits"),
        (put(*STEPS, 0, "behavior", "Removed"), 'Split.behavior = "Removed"'),
        (put(*STEPS, 0, "invert", True), "Split.invert = true"),
        (put(*STEPS, 0, "pattern", {"String": "a"}), "pre_tokenizer pattern"),
        (put(*STEPS, 0, "pattern", {"Regex": "a+"}), "splitting pattern 'a\\+'"),
        (put(*STEPS, 1, "add_prefix_space", True), "ByteLevel.add_prefix_space = true"),
        (put(*STEPS, 1, "use_regex", True), "ByteLevel.use_regex = true"),
        (drop(*STEPS, 1, "use_regex"), "ByteLevel without use_regex"),
        (put("post_processor", {"type": "TemplateProcessing"}), "post_processor 'TemplateProcessing'"),
        (put("post_processor", "trim_offsets", True), "post_processor.trim_offsets = true"),
        (put("decoder", None), "decoder None"),
        (put("decoder", {"type": "Metaspace"}), "decoder 'Metaspace'"),
        (put("model", "type", "Unigram"), "model 'Unigram'"),
        (put("model", "dropout", 0.1), "model.dropout = 0.1"),
        (put("model", "unk_token", "<unk>"), 'model.unk_token = "<unk>"'),
        (put("model", "byte_fallback", True), "model.byte_fallback = true"),
        (put("model", "byte_fallback", 0), "model.byte_fallback = 0"),
        (put("model", "ignore_merges", True), "model.ignore_merges = true"),
        (put("model", "continuing_subword_prefix", "##"), "model.continuing_subword_prefix"),
        (put("model", "surprise", 1), "model.surprise"),
        (drop("model"), "model is missing"),
        (put("model", "vocab", []), "model.vocab must be an object"),
        (put("model", "vocab", "a", -1), "non-negative whole numbers"),
        (put("model", "vocab", "a", "1"), "non-negative whole numbers"),
        (put("model", "vocab", "a", True), "non-negative whole numbers"),
        (put("model", "vocab", "a", 2**31), r"whole numbers below 2\*\*31"),
        (put("model", "vocab", "zz", 5), "one id to two tokens"),
        (drop("model", "vocab", "\u0120"), "lacks 1 of the 256 bytes, first 20"),
        (put("model", "merges", None), "model.merges must be a list"),
        (put("model", "merges", ["a"]), r"model.merges\[0\]"),
        (put("model", "merges", ["a b", "a  b"]), r"model.merges\[1\]"),
        (put("model", "merges", ["a z"]), r"model.merges\[0\] = \"a z\" is not a pair"),
        (put("model", "merges", [["a", "b", "c"]]), r"model.merges\[0\]"),
        (put("model", "merges", [[["a"], "b"]]), r"model.merges\[0\]"),
        (put("model", "merges", [7]), r"model.merges\[0\]"),
        (put("added_tokens", {}), "added_tokens must be a list"),
        (put("added_tokens", ["x"]), r"added_tokens\[0\] must be an object"),
        (put("added_tokens", [{"id": 300}]), r"added_tokens\[0\] must be an object with a content"),
        (put("added_tokens", [{"content": "<x>"}]), r"added_tokens\[0\] needs an id"),
        (put("added_tokens", [{"content": "<x>", "id": True}]), r"added_tokens\[0\] needs an id"),
        (put("added_tokens", [{"content": "<x>", "id": 3}]), "contradicts model.vocab"),
        (put("added_tokens", [{"content": "a", "id": 300}]), "contradicts model.vocab"),
        (put("added_tokens", [{"content": "<x>", "id": 300, "special": 1}]), "special must be true or false"),
        (put("added_tokens", [{"content": "<x>", "id": 300}] * 2), r"added_tokens\[1\] repeats"),
    ],
)
def test_what_would_not_be_exact_is_refused_by_name(
    tmp_path: Path, change: Callable[[Data], None], says: str
) -> None:
    data = copy.deepcopy(tiny_tokenizer_json(merges=MERGES))
    change(data)
    assert re.search(says, refusal(tmp_path, data))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ([], "must hold a JSON object"),
        ({"added_tokens_decoder": []}, "added_tokens_decoder must be an object"),
        ({"added_tokens_decoder": {"x": {"content": "<x>"}}}, "needs an id"),
        ({"added_tokens_decoder": {"\u00b2": {"content": "<x>"}}}, "needs an id"),
        ({"added_tokens_decoder": {"9" * 5000: {"content": "<x>"}}}, "needs an id"),
        ({"added_tokens_decoder": {"5": {"content": "<x>"}}}, "contradicts tokenizer.json"),
        ({"added_tokens_decoder": {"300": {"content": "a"}}}, "contradicts tokenizer.json"),
        ({"added_tokens_decoder": {"300": "<x>"}}, "must be an object"),
        ({"eos_token": 5}, "eos_token must be a string"),
        ({"add_bos_token": True}, "add_bos_token = true is not supported"),
        ({"add_prefix_space": True}, "add_prefix_space = true"),
        ({"split_special_tokens": True}, "split_special_tokens = true"),
    ],
)
def test_a_config_that_contradicts_or_changes_ids_is_refused(tmp_path: Path, config: Any, says: str) -> None:
    assert says in refusal(tmp_path, tiny_tokenizer_json(merges=MERGES), config)


def test_any_cut_or_flipped_byte_gives_a_tokenizer_or_a_typed_error(tmp_path: Path) -> None:
    added = [{"content": "<x>", "special": True}]
    whole = json.dumps(tiny_tokenizer_json(merges=MERGES, added=added)).encode()
    messages = []
    for place in range(0, len(whole), 37):
        for content in (
            whole[:place],
            whole[:place] + b"}" + whole[place + 1 :],
            whole[:place] + whole[place + 9 :],
        ):
            (tmp_path / "tokenizer.json").write_bytes(content)
            try:
                Tokenizer.from_folder(tmp_path).encode("abc <x>")
            except QanatError as error:
                messages.append(str(error))
    assert len(messages) > 100
    assert not any("\n" in message for message in messages)
