"""Reading .safetensors files: the file is mapped, a tensor is a view into it, nothing is copied.

The format: docs/frontend.md, section 10. The bytes are only touched when an array's elements are.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qanat.checkpoint.dtypes import NUMPY
from qanat.checkpoint.safetensors_header import MAX_HEADER, Entry, Header, parse_header
from qanat.checkpoint.safetensors_write import TensorPlan, write_planned, write_safetensors
from qanat.checkpoint.strict_json import as_one_line
from qanat.errors import SafetensorsError

__all__ = ["Entry", "SafetensorsFile", "TensorPlan", "write_planned", "write_safetensors"]


class SafetensorsFile:
    """An open .safetensors file: its header is checked when it is opened, its data are mapped.

    Arrays keep the mapping alive, so they stay valid after `close`. A file must not be rewritten in place
    while it is open (the operating system would show the new bytes); qanat's own writer never does that.
    """

    def __init__(self, path: str | Path) -> None:
        """Open and check a file.

        Raises:
            SafetensorsError: it cannot be read, or breaks the format.
        """
        self.path = Path(path)
        try:
            self._map, self._header, self._data_start = self._open()
        except OSError as problem:
            raise SafetensorsError(f"{self.path}: cannot be read: {problem.strerror or problem}") from None

    def _open(self) -> tuple[mmap.mmap, Header, int]:
        name = str(self.path)
        # Non-blocking, so that a named pipe put in the place of a file cannot make us wait for ever.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self.path, flags)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise SafetensorsError(f"{name}: not a regular file; point to the folder of a model")
            size = status.st_size
            if size < 8:
                raise SafetensorsError(
                    f"{name}: the file ends after {size} bytes, before its header; download it again"
                )
            mapped = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
        length = int.from_bytes(mapped[:8], "little")
        if length == 0 or length > MAX_HEADER:
            raise SafetensorsError(
                f"{name}: a header of {length} bytes is impossible (limit {MAX_HEADER}); not safetensors"
            )
        if 8 + length > size:
            raise SafetensorsError(
                f"{name}: the file ends after {size} of at least {8 + length} bytes; download it again"
            )
        return mapped, parse_header(mapped[8 : 8 + length], size - 8 - length, name), 8 + length

    @property
    def metadata(self) -> dict[str, str]:
        """The free text of `__metadata__`."""
        return self._header.metadata

    @property
    def entries(self) -> dict[str, Entry]:
        """Name -> dtype, shape and place of every tensor, in the header's order."""
        return self._header.entries

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def array(self, name: str) -> NDArray[np.generic]:
        """Give a tensor as a read-only array of its shape.

        Zero-copy when its place in the file is aligned to its element size, which it is in files of the
        common writers; otherwise a copy.

        Raises:
            SafetensorsError: no tensor of that name, or a type that NumPy has no array for (F4, F6, ...).
        """
        entry = self.entries.get(name)
        if entry is None:
            raise SafetensorsError(f"{self.path}: it has no tensor {as_one_line(name)}")
        dtype = NUMPY.get(entry.dtype)
        if dtype is None:
            raise SafetensorsError(
                f"{self.path}: tensor {as_one_line(name)} is {entry.dtype}, which qanat does not read; "
                f"it reads {', '.join(NUMPY)}"
            )
        if entry.begin == entry.end:
            empty: NDArray[np.generic] = np.empty(entry.shape, dtype)
            empty.flags.writeable = False
            return empty
        count = (entry.end - entry.begin) // dtype.itemsize
        array = np.frombuffer(self._map, dtype, count, self._data_start + entry.begin).reshape(entry.shape)
        if not array.flags.aligned:
            array = array.copy()
            array.flags.writeable = False
        return array

    def close(self) -> None:
        """Let go of the mapping; it ends when the last array into it is gone."""
        with contextlib.suppress(BufferError):  # arrays still look into it; the last of them ends it
            self._map.close()

    def __enter__(self) -> SafetensorsFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
