"""The reader takes every sound file without copying, and names what is wrong with every other one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qanat.checkpoint.dtypes import NUMPY
from qanat.checkpoint.safetensors import SafetensorsFile, write_safetensors
from qanat.errors import SafetensorsError


def file_of(path: Path, header: object, data: bytes = b"", *, pad: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += pad
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def tensor(shape: list[int], begin: int, end: int, dtype: str = "F32", **more: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end], **more}


ONE = {"a": tensor([1], 0, 4)}
ONE_JSON = json.dumps(ONE["a"]).encode()

REJECTED: dict[str, tuple[object, bytes, str]] = {
    "not JSON": (b"{'a': 1}", b"", "not valid JSON"),
    "not UTF-8": (b'{"\xff": 1}', b"", "not UTF-8"),
    "not an object": ([1], b"", "not an object"),
    "entry not an object": ({"a": 3}, b"", "not an object"),
    "duplicate tensor": (b'{"a":%b,"a":%b}' % (ONE_JSON, ONE_JSON), bytes(4), "twice"),
    "duplicate field": (
        b'{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        bytes(4),
        "twice",
    ),
    "NaN": (b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}', bytes(4), "NaN"),
    "endless number": (
        b'{"a":{"dtype":"F32","shape":[' + b"9" * 100_000 + b'],"data_offsets":[0,4]}}',
        bytes(4),
        "digits",
    ),
    "deep nesting": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"", "deep"),
    "nesting just too deep": (
        {"a": {**ONE["a"], "x": json.loads("[" * 130 + "]" * 130)}},
        bytes(4),
        "deeper",
    ),
    "unknown dtype": ({"a": tensor([1], 0, 4, "F31")}, bytes(4), "F31"),
    "dtype not a string": ({"a": tensor([1], 0, 4, 7)}, bytes(4), "dtype"),  # type: ignore[arg-type]
    "dtype missing": ({"a": {"shape": [1], "data_offsets": [0, 4]}}, bytes(4), "dtype is missing"),
    "shape missing": ({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, bytes(4), "shape is missing"),
    "offsets missing": ({"a": {"dtype": "F32", "shape": [1]}}, bytes(4), "data_offsets is missing"),
    "negative shape": ({"a": tensor([-1], 0, 4)}, bytes(4), "non-negative"),
    "float shape": (
        {"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}},
        bytes(4),
        "non-negative",
    ),
    "boolean shape": (
        {"a": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}},
        bytes(4),
        "non-negative",
    ),
    "shape product overflows": ({"a": tensor([2**40, 2**40], 0, 4)}, bytes(4), "overflows"),
    "shape product overflows beside a zero": ({"a": tensor([2**40, 2**40, 0], 0, 0)}, b"", "overflows"),
    "too many dimensions": ({"a": tensor([1] * 33, 0, 4)}, bytes(4), "dimensions"),
    "size is not shape times dtype": ({"a": tensor([2], 0, 4)}, bytes(4), "do not hold"),
    "half a byte": ({"a": tensor([3], 0, 1, "F4")}, bytes(1), "whole bytes"),
    "begin after end": ({"a": tensor([1], 4, 0)}, bytes(4), "after their end"),
    "one offset": ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4]}}, bytes(4), "two"),
    "hole": ({"a": tensor([1], 0, 4), "b": tensor([1], 8, 12)}, bytes(12), "a hole"),
    "hole at the start": ({"a": tensor([1], 4, 8)}, bytes(8), "a hole"),
    "overlap": ({"a": tensor([2], 0, 8), "b": tensor([1], 4, 8)}, bytes(8), "an overlap"),
    "trailing bytes": (ONE, bytes(5), "1 bytes follow"),
    "truncated data": (ONE, bytes(3), "ends after 3 of 4 bytes"),
    "metadata not strings": ({"__metadata__": {"a": 1}}, b"", "__metadata__"),
    "metadata not an object": ({"__metadata__": "x"}, b"", "__metadata__"),
    "name is half a character": (
        b'{"\\ud800":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        bytes(4),
        "half a character",
    ),
    "metadata is half a character": (
        b'{"__metadata__":{"k":"\\udfff"}}',
        b"",
        "half a character",
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_a_broken_file_is_refused_and_the_message_says_where_and_what(case: str, tmp_path: Path) -> None:
    header, data, words = REJECTED[case]
    path = file_of(tmp_path / "x.safetensors", header, data)
    with pytest.raises(SafetensorsError) as caught:
        SafetensorsFile(path)
    message = str(caught.value)
    assert words in message
    assert str(path) in message
    assert "\n" not in message
    assert message.isprintable()
    assert len(message) < 400 + len(str(path))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "download it again"),
        (b"1234567", "download it again"),
        (bytes(8), "impossible"),
        ((100_000_001).to_bytes(8, "little") + b"{}", "impossible"),
        (b"\xff" * 16, "impossible"),
        ((100).to_bytes(8, "little") + b"{}", "download it again"),
        (b"<!DOCTYPE html><html>", "impossible"),
        (b"version https://git-lfs.github.com/spec/v1\n", "impossible"),
    ],
)
def test_what_is_no_safetensors_file_at_all_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(SafetensorsError, match=words):
        SafetensorsFile(path)


def test_a_named_pipe_in_the_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    pipe = tmp_path / "x.safetensors"
    os.mkfifo(pipe)
    with pytest.raises(SafetensorsError, match="not a regular file"):
        SafetensorsFile(pipe)


def test_missing_files_and_folders_are_typed_errors(tmp_path: Path) -> None:
    with pytest.raises(SafetensorsError, match="No such file"):
        SafetensorsFile(tmp_path / "none.safetensors")
    with pytest.raises(SafetensorsError):
        SafetensorsFile(tmp_path)


def test_a_file_of_metadata_alone_is_sound(tmp_path: Path) -> None:
    file = SafetensorsFile(file_of(tmp_path / "x", {"__metadata__": {"format": "pt"}}))
    assert len(file) == 0
    assert file.metadata == {"format": "pt"}
    assert not len(SafetensorsFile(file_of(tmp_path / "y", {})))


def test_padding_key_order_and_unknown_fields_do_not_matter(tmp_path: Path) -> None:
    header = {"b": tensor([1], 4, 8, extra={"x": [1]}), "a": tensor([1], 0, 4)}
    data = np.array([1.5, -2], "<f4").tobytes()
    padded = file_of(tmp_path / "x", b"  " + json.dumps(header).encode(), data, pad=b" \n\t ")
    file = SafetensorsFile(padded)
    assert list(file) == ["b", "a"]
    assert file.array("a") == 1.5
    assert file.array("b") == -2


def test_scalars_and_empty_tensors(tmp_path: Path) -> None:
    header = {
        "scalar": tensor([], 0, 4),
        "empty": tensor([3, 0, 2], 4, 4, "BF16"),
        "first": tensor([0], 0, 0),
    }
    file = SafetensorsFile(file_of(tmp_path / "x", header, np.float32(7).tobytes()))
    assert file.array("scalar").shape == ()
    assert file.array("scalar") == 7
    assert file.array("empty").shape == (3, 0, 2)
    assert file.array("empty").dtype == ml_dtypes.bfloat16
    assert not file.array("empty").flags.writeable


def test_aligned_tensors_are_views_into_the_file_and_others_are_copied(tmp_path: Path) -> None:
    header = {"byte": tensor([1], 0, 1, "U8"), "odd": tensor([2], 1, 9), "word": tensor([2], 9, 11, "I8")}
    text = json.dumps(header).encode()
    data = b"\x05" + np.array([1, 2], "<f4").tobytes() + b"\x01\xff"
    file = SafetensorsFile(file_of(tmp_path / "x", header, data, pad=b" " * (-len(text) % 8)))
    odd, byte, word = file.array("odd"), file.array("byte"), file.array("word")
    assert odd.tolist() == [1, 2]
    assert word.tolist() == [1, -1]
    assert odd.flags.aligned
    assert odd.flags.owndata
    assert not byte.flags.owndata
    assert not any(array.flags.writeable for array in (odd, byte, word))
    with pytest.raises(ValueError, match="read-only"):
        odd[0] = 0


def test_two_reads_share_the_memory_of_the_file(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "x", {"a": np.arange(1000, dtype=np.float32)})
    file = SafetensorsFile(tmp_path / "x")
    assert np.shares_memory(file.array("a"), file.array("a"))


def test_arrays_outlive_the_file_object(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "x", {"a": np.arange(5)})
    with SafetensorsFile(tmp_path / "x") as file:
        array = file.array("a")
    del file
    assert array.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("dtype", "size"), [("F4", 1), ("F6_E2M3", 3), ("F8_E8M0", 4), ("C64", 32)])
def test_types_without_an_array_are_listed_but_refused_by_name_when_read(
    dtype: str, size: int, tmp_path: Path
) -> None:
    shape = [2] if dtype == "F4" else [4]
    file = SafetensorsFile(file_of(tmp_path / "x", {"t": tensor(shape, 0, size, dtype)}, bytes(size)))
    assert file.entries["t"].dtype == dtype
    with pytest.raises(SafetensorsError, match=dtype):
        file.array("t")


def test_an_unknown_name_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(SafetensorsError, match="no tensor 'nope'"):
        SafetensorsFile(file_of(tmp_path / "x", {})).array("nope")


shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
names = st.text(st.characters(codec="utf-8"), max_size=12).filter(lambda name: name != "__metadata__")


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(names, st.tuples(st.sampled_from(sorted(NUMPY)), shapes), max_size=6), st.randoms())
def test_what_is_written_is_read_back_bit_for_bit(tmp_path_factory, plan, random) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("trip") / "x.safetensors"
    tensors = {}
    for name, (dtype, shape) in plan.items():
        count = int(np.prod(shape, dtype=int)) * NUMPY[dtype].itemsize
        raw = bytes(random.getrandbits(1 if dtype == "BOOL" else 8) for _ in range(count))
        tensors[name] = np.frombuffer(raw, NUMPY[dtype]).reshape(shape)
    write_safetensors(path, tensors, {"k": "v"})
    file = SafetensorsFile(path)
    assert set(file) == set(tensors)
    assert file.metadata == {"k": "v"}
    for name, array in tensors.items():
        read = file.array(name)
        assert read.dtype == array.dtype
        assert read.shape == array.shape
        assert read.tobytes() == array.tobytes()
        assert read.flags.owndata == (read.size == 0)  # our files are aligned: always a view
