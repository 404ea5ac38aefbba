"""Against the safetensors library: the same files are taken and refused, the same bytes come out."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_fuzz import mutate_bytes, mutate_value
from test_safetensors_reader import REJECTED, file_of, tensor

from qanat.checkpoint.dtypes import BITS
from qanat.checkpoint.safetensors import SafetensorsFile, write_safetensors
from qanat.errors import SafetensorsError

safetensors = pytest.importorskip("safetensors", reason="the safetensors library is not installed (optional)")
pytestmark = pytest.mark.parity

# What we refuse and the library takes, by words of our message (docs/frontend.md, section 10).
STRICTER = ("appears twice", "dimensions are more than", "overflows", "digits", "is not JSON", "too large")


def ours(path: Path) -> str:
    try:
        SafetensorsFile(path)
    except SafetensorsError as error:
        return str(error)
    return ""


def theirs(path: Path) -> str:
    try:
        with safetensors.safe_open(path, framework="np"):
            return ""
    except Exception as error:
        return str(error) or "refused"


def assert_same_verdict(path: Path) -> None:
    mine, reference = ours(path), theirs(path)
    if mine and any(words in mine for words in STRICTER):
        return
    assert bool(mine) == bool(reference), (
        f"ours: {mine!r}, theirs: {reference!r}, file: {path.read_bytes()!r}"
    )


@pytest.mark.parametrize("case", REJECTED)
def test_the_library_refuses_the_same_broken_files(case: str, tmp_path: Path) -> None:
    header, data, _ = REJECTED[case]
    assert_same_verdict(file_of(tmp_path / "x.safetensors", header, data))


def test_four_thousand_mutated_files_get_the_same_verdict(tmp_path: Path) -> None:
    rng = random.Random(3)
    path = tmp_path / "x.safetensors"
    write_safetensors(
        path, {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(3, np.int8)}, {"k": "v"}
    )
    original = path.read_bytes()
    length = int.from_bytes(original[:8], "little")
    header, data = json.loads(original[8 : 8 + length]), original[8 + length :]
    for _ in range(4000):
        if rng.random() < 0.5:
            path.write_bytes(mutate_bytes(rng, original))
        else:
            changed: Any = mutate_value(rng, header)
            text = json.dumps(changed).encode()
            path.write_bytes(len(text).to_bytes(8, "little") + text + data)
        assert_same_verdict(path)


def test_the_library_reads_what_we_write_and_we_read_what_it_writes(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    arrays = {
        "f": np.arange(12, dtype=np.float32).reshape(3, 4),
        "h": np.ones((2, 0, 3), np.float16),
        "i": np.array(-7, np.int64),
        "b": np.array([True, False]),
    }
    write_safetensors(tmp_path / "ours", arrays, {"format": "pt"})
    save_file(arrays, tmp_path / "theirs", {"format": "pt"})
    read = load_file(tmp_path / "ours")
    file = SafetensorsFile(tmp_path / "theirs")
    for name, array in arrays.items():
        for other in (read[name], file.array(name)):
            assert other.dtype == array.dtype
            assert other.shape == array.shape
            assert other.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", BITS)
def test_the_library_knows_every_type_that_we_list(dtype: str, tmp_path: Path) -> None:
    header = {"t": tensor([8], 0, BITS[dtype], dtype)}
    path = file_of(tmp_path / "x.safetensors", header, bytes(BITS[dtype]))
    assert (ours(path), theirs(path)) == ("", "")
