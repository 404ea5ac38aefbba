"""The header of a .safetensors file: parsed, and held against every rule of the format.

Layout: 8 bytes little-endian header length n; n bytes of JSON `{name: {dtype, shape, data_offsets}}`; data.
Rules: docs/frontend.md, section 10. They are those of the safetensors library, and one more: a duplicate
key is refused, because whichever of two tensors were taken would be a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qanat.checkpoint.dtypes import BITS
from qanat.checkpoint.strict_json import MAX_NESTING, as_one_line, parse_json
from qanat.errors import SafetensorsError

__all__ = ["MAX_HEADER", "Entry", "Header", "parse_header"]

MAX_HEADER = 100_000_000  # bytes, the format's limit
MAX_DIMENSIONS = 32  # what every NumPy can hold
MAX_ELEMENTS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor's line in the header. Offsets are bytes from the start of the data."""

    name: str
    dtype: str  # as written: "BF16"
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """All tensors of a file, in the order of the header, and its free-text metadata."""

    entries: dict[str, Entry]
    metadata: dict[str, str]


def parse_header(data: bytes, data_size: int, file: str) -> Header:
    """Parse header bytes.

    Args:
        data: the n bytes of JSON.
        data_size: how many bytes follow the header in the file.
        file: how messages call the file.

    Raises:
        SafetensorsError: names the file, the tensor, and what is wrong.
    """
    root = parse_json(data, f"{file}: header", SafetensorsError)
    if not isinstance(root, dict):
        raise SafetensorsError(f"{file}: header is {type(root).__name__}, not an object; the file is damaged")
    _refuse_deep_nesting(root, file)
    metadata = root.pop("__metadata__", None)
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise SafetensorsError(f"{file}: __metadata__ must map strings to strings; the file is damaged")
    entries = {name: _entry(name, value, file) for name, value in root.items()}
    _check_coverage(entries, data_size, file)
    return Header(entries, metadata)


def _entry(name: str, value: Any, file: str) -> Entry:
    def damaged(what: str) -> SafetensorsError:
        return SafetensorsError(f"{file}: tensor {as_one_line(name)}: {what}; the file is damaged")

    if not isinstance(value, dict):
        raise damaged("its entry is not an object")
    for field in ("dtype", "shape", "data_offsets"):
        if field not in value:
            raise damaged(f"{field} is missing")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise damaged(f"unknown dtype {as_one_line(str(dtype), 30)}")
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n <= MAX_ELEMENTS for n in shape):
        raise damaged("its shape is not a list of non-negative integers")
    if len(shape) > MAX_DIMENSIONS:
        raise damaged(f"{len(shape)} dimensions are more than {MAX_DIMENSIONS}")
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or not all(type(n) is int and 0 <= n <= MAX_ELEMENTS for n in offsets)
    ):
        raise damaged("its data_offsets are not two non-negative integers")
    begin, end = offsets
    if begin > end:
        raise damaged(f"its data begin at {begin}, after their end at {end}")
    if end - begin != _size(shape, BITS[dtype], damaged):
        raise damaged(f"{end - begin} bytes of data do not hold shape {shape} of {dtype}")
    return Entry(name, dtype, tuple(shape), begin, end)


def _size(shape: list[int], bits: int, damaged: Any) -> int:
    """Bytes of a shape; also bounds the product without its zeros, which NumPy must be able to hold."""
    elements, product = 1, 1
    for n in shape:
        elements *= n
        product *= max(n, 1)
        if product > MAX_ELEMENTS // 8:
            raise damaged(f"its shape {as_one_line(str(shape), 60)} overflows")
    if elements * bits % 8:
        raise damaged("its elements do not fill whole bytes")
    return elements * bits // 8


def _check_coverage(entries: dict[str, Entry], data_size: int, file: str) -> None:
    """The ranges, sorted, must run from 0 to the end of the data without hole or overlap."""
    at = 0
    for entry in sorted(entries.values(), key=lambda e: (e.begin, e.end)):
        if entry.begin != at:
            kind = "a hole before it" if entry.begin > at else "an overlap with another tensor"
            raise SafetensorsError(
                f"{file}: tensor {as_one_line(entry.name)}: {kind} (data at {entry.begin}, expected {at}); "
                "the file is damaged"
            )
        at = entry.end
    if at > data_size:
        raise SafetensorsError(
            f"{file}: the file ends after {data_size} of {at} bytes of data; download it again"
        )
    if at < data_size:
        raise SafetensorsError(
            f"{file}: {data_size - at} bytes follow the last tensor; the file is damaged, download it again"
        )


def _refuse_deep_nesting(root: dict[str, Any], file: str) -> None:
    """Walk the parsed header level by level; a sound one has three levels."""
    level: list[Any] = [root]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_NESTING:
            raise SafetensorsError(f"{file}: header is nested deeper than {MAX_NESTING}; not safetensors")
        level = [
            child
            for value in level
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, (dict, list))
        ]
