"""A checkpoint's fingerprint changes with its bytes, and only with them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from qanat.checkpoint.fingerprint import fingerprint
from qanat.checkpoint.safetensors import SafetensorsFile, write_safetensors
from qanat.checkpoint.tensor_view import TensorView


def print_of(file: Path) -> str:
    source = SafetensorsFile(file)
    return fingerprint([TensorView.of(name, source, name) for name in source])


def written(file: Path, value: float = 1.0, name: str = "w", mtime: int = 10**18) -> Path:
    write_safetensors(file, {name: np.full(3, value, np.float32)})
    os.utime(file, ns=(mtime, mtime))
    return file


def test_the_same_file_has_the_same_fingerprint(tmp_path: Path) -> None:
    file = written(tmp_path / "model.safetensors")
    assert print_of(file) == print_of(file)


@pytest.mark.parametrize("change", [{"name": "v"}, {"mtime": 10**18 + 1}])
def test_another_header_or_a_later_change_is_another_fingerprint(tmp_path: Path, change: dict) -> None:  # type: ignore[type-arg]
    file = tmp_path / "model.safetensors"
    before = print_of(written(file))
    assert print_of(written(file, **change)) != before


def test_a_blob_of_the_hub_is_known_by_its_hash_not_its_time(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    link = tmp_path / "model.safetensors"
    found = []
    for blob, mtime in (("abc", 10**18), ("abc", 2 * 10**18), ("abd", 10**18)):
        link.unlink(missing_ok=True)
        link.symlink_to(written(tmp_path / "blobs" / blob, mtime=mtime))
        found.append(print_of(link))
    assert found[0] == found[1] != found[2]
