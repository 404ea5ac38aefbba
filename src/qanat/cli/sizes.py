"""Amounts of memory as people type them."""

from __future__ import annotations

import re

from qanat.cli.input import InputError

__all__ = ["byte_count"]

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", 1):
    _UNITS |= {f"{_letter}": 1000**_power, f"{_letter}B": 1000**_power, f"{_letter}IB": 1024**_power}
_SIZE = re.compile(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([A-Za-z]*)\s*", re.ASCII)


def byte_count(text: str, option: str) -> int:
    """ "8GB", "7.5 GiB", "500M" or "8000000000" -> bytes; K, M, G and T are decimal, KiB and so on binary.

    Raises:
        InputError: it is no size, or not even a byte; the message names `option`.
    """
    match = _SIZE.fullmatch(text)
    unit = _UNITS.get(match[2].upper()) if match else None
    size = int(float(match[1]) * unit) if match and unit is not None else 0
    if size < 1:
        raise InputError(f"{option} must be a size such as 8GB, 7.5GiB or 500MB, not {text!r}")
    return size
