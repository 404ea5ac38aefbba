"""Sharded checkpoints: complete, consistent, and never outside of their folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qanat.checkpoint.index import INDEX, open_weights
from qanat.checkpoint.safetensors import write_safetensors
from qanat.errors import CheckpointError, SafetensorsError

A, B = "m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"


def put(folder: Path, shards: dict[str, list[str]], weight_map: Any) -> Path:
    for file, names in shards.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        write_safetensors(folder / file, {name: np.ones(2, np.float32) for name in names})
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    return folder


def test_shards_are_joined(tmp_path: Path) -> None:
    put(tmp_path, {A: ["a", "b"], B: ["c"]}, {"a": A, "b": A, "c": B})
    holders = open_weights(tmp_path)
    assert {name: file.path.name for name, file in holders.items()} == {"a": A, "b": A, "c": B}


def test_a_single_file_goes_before_an_index(tmp_path: Path) -> None:
    put(tmp_path, {"model.safetensors": ["x"]}, {"a": A})
    assert set(open_weights(tmp_path)) == {"x"}


def test_links_into_a_blob_folder_are_followed_as_the_hubs_cache_needs(tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshots"
    put(snapshot, {A: ["a"]}, {"a": A})
    (snapshot / A).rename(tmp_path / "blob")
    (snapshot / A).symlink_to("../blob")
    assert set(open_weights(snapshot)) == {"a"}


@pytest.mark.parametrize(
    "shard",
    [
        "../out.safetensors",
        "x" * 300 + ".safetensors",
        "/etc/x.safetensors",
        "a/../../x.safetensors",
        "",
        ".",
        "..",
        "x/",
        "//x.safetensors",
        "a\\x.safetensors",
        "c:x.safetensors",
        "x\0.safetensors",
        "model.bin",
        7,
        None,
        ["x"],
        "./x.safetensors",
    ],
)
def test_an_index_may_name_only_safetensors_files_inside_the_folder(shard: Any, tmp_path: Path) -> None:
    put(tmp_path, {}, {"a": shard})
    with pytest.raises(CheckpointError, match="weight_map sends 'a'"):
        open_weights(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    put(tmp_path, {A: ["a"]}, {"a": A, "b": B})
    with pytest.raises(CheckpointError, match=f"1 of 2 weight files are missing: '{B}'"):
        open_weights(tmp_path)


def test_a_tensor_that_its_shard_lacks_is_named(tmp_path: Path) -> None:
    put(tmp_path, {A: ["a"], B: ["c"]}, {"a": A, "b": A, "c": B})
    with pytest.raises(CheckpointError, match=r"'b' is in m-00001.*no file has it"):
        open_weights(tmp_path)
    put(tmp_path, {A: ["a"], B: ["b", "c"]}, {"a": A, "b": A, "c": B})
    with pytest.raises(CheckpointError, match="it is in m-00002"):
        open_weights(tmp_path)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    put(tmp_path, {A: ["a", "b"], B: ["b"]}, {"a": A, "b": B})
    with pytest.raises(CheckpointError, match="'b' is in both"):
        open_weights(tmp_path)


def test_a_truncated_shard_is_named(tmp_path: Path) -> None:
    put(tmp_path, {A: ["a"], B: ["b"]}, {"a": A, "b": B})
    data = (tmp_path / B).read_bytes()
    (tmp_path / B).write_bytes(data[:-3])
    with pytest.raises(
        SafetensorsError, match=f"{B}: the file ends after 5 of 8 bytes of data; download it again"
    ):
        open_weights(tmp_path)


@pytest.mark.parametrize("weight_map", [None, {}, [], "x"])
def test_a_damaged_index_is_refused(weight_map: Any, tmp_path: Path) -> None:
    put(tmp_path, {}, weight_map)
    with pytest.raises(CheckpointError, match="weight_map"):
        open_weights(tmp_path)


def test_a_folder_without_weights_says_what_it_has_instead(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"neither model\.safetensors nor"):
        open_weights(tmp_path)
    (tmp_path / "model-Q4.gguf").touch()
    with pytest.raises(CheckpointError, match=r"model-Q4\.gguf is another format"):
        open_weights(tmp_path)
