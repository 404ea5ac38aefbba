"""Packed weights on disk: packing a checkpoint once, mapping it ever after.

One folder per checkpoint and mode, under `packs/` in qanat's cache; in it a file of all packed arrays, in the
order in which the model asks for them, each at a multiple of 64 bytes, as the kernels like it; and a
manifest. It is one file because every mapping holds a file open, and a model of 64 layers has a thousand
arrays. A folder appears under its name only when it is complete. Old ones go, the longest unused first, when
all of them together exceed the limit. A start looks at sizes only; a checksum of every array is kept for
`is_sound`, which reads it all.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.errors import RequestError
from qanat.paths import cache_root

__all__ = ["CachedPack", "PackCache", "cached_packs", "is_sound", "limit_bytes"]

FORMAT = 4  # raise the number when the layout of packed weights changes
MANIFEST = "manifest.json"
DATA = "arrays.bin"
ALIGNMENT = 64
LIMIT = "QANAT_CACHE_LIMIT"
DEFAULT_LIMIT = 40 << 30
UNFINISHED = "unfinished-"
DAY = 86_400  # seconds

DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError)
"""What reading a pack raises that is not as it was written."""

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class CachedPack:
    """One folder of packed weights."""

    model: str  # as it was named when it was packed
    weights: str
    nbytes: int
    path: Path
    last_used: float  # seconds since the epoch


def limit_bytes() -> int:
    """Most bytes that all packs may take: `QANAT_CACHE_LIMIT` (bytes, 0 keeps none), else 40 GiB.

    Raises:
        RequestError: the variable is not a number of bytes.
    """
    text = os.environ.get(LIMIT, "")
    if not text:
        return DEFAULT_LIMIT
    try:
        limit = int(text)
    except ValueError:
        limit = -1
    if limit < 0:
        raise RequestError(f"{LIMIT} must be a number of bytes, not {text!r}")
    return limit


def packs_folder() -> Path:
    """Where all packs lie."""
    return cache_root() / "packs"


def cached_packs() -> list[CachedPack]:
    """What there is, the most recently used first; damaged folders are left out."""
    found = []
    for manifest in packs_folder().glob(f"*/{MANIFEST}"):
        try:
            facts = json.loads(manifest.read_text(encoding="utf-8"))
            folder = manifest.parent
            nbytes = sum(file.stat().st_size for file in folder.iterdir())
            used = manifest.stat().st_mtime
            found.append(CachedPack(str(facts["model"]), str(facts["weights"]), nbytes, folder, used))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return sorted(found, key=lambda pack: -pack.last_used)


def is_sound(folder: Path) -> bool:
    """Whether a pack holds what was written, to the byte: reads all of it."""
    try:
        facts = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return all(entry.sound for entry in _mapped_entries(folder, facts))
    except DAMAGED:
        return False


def checksum(array: NDArray[Any]) -> int:
    """The sum of the 8-byte words of a contiguous array: notices damage at memory's speed, not malice."""
    data = array.reshape(-1).view(np.uint8)
    whole = len(data) // 8 * 8
    words, rest = data[:whole].view(np.uint64), data[whole:].tobytes()
    return (int(words.sum(dtype=np.uint64)) + int.from_bytes(rest, "little")) % 2**64


@dataclass(frozen=True)
class _Entry:
    """The mapped arrays of one weight [out, in], and their checksums as they were written."""

    shape: list[int]
    arrays: Arrays
    checksums: Mapping[str, int]

    @property
    def sound(self) -> bool:
        return all(checksum(array) == self.checksums[name] for name, array in self.arrays.items())


class PackCache:
    """The packed arrays of one checkpoint in one mode, in the order in which they are asked for.

    Args:
        fingerprint: what identifies the checkpoint's bytes.
        model: its name, for listings.
        weights: the mode.

    Raises:
        RequestError: `QANAT_CACHE_LIMIT` is not a number of bytes.
    """

    def __init__(self, fingerprint: str, model: str, weights: str) -> None:
        limit_bytes()  # refused now, not when everything is packed
        self._facts = {"format": FORMAT, "fingerprint": fingerprint, "model": model, "weights": weights}
        self.path = packs_folder() / f"{fingerprint[:24]}-{weights}-{FORMAT}"
        self._count = 0
        self._written: list[dict[str, Any]] = []
        self._size = 0  # of the file that is being written
        self._scratch: Path | None = None
        self._entries = self._open()

    @property
    def hit(self) -> bool:
        """Whether the pack is there, so that nothing has to be packed."""
        return self._entries is not None

    def arrays(self, shape: tuple[int, int], make: Callable[[], Arrays]) -> Arrays:
        """The arrays of the next weight [out, in]: mapped from the pack, or made now and kept for it."""
        index, self._count = self._count, self._count + 1
        if self._entries is not None:
            entry = self._entries[index] if index < len(self._entries) else None
            if entry is not None and entry.shape == list(shape):
                return entry.arrays
            self._entries = None  # another order of weights: a pack of other sources; pack anew
        try:
            made = make()
        except BaseException:
            self._give_up()
            raise
        self._keep(index, shape, made)
        return made

    def seal(self) -> None:
        """All weights were asked for: what was packed takes its name, and old packs make room.

        This one goes too if it exceeds the limit alone: what is mapped stays so until the process ends.
        """
        if self.hit:
            with contextlib.suppress(OSError):
                os.utime(self.path / MANIFEST)
        if self._scratch is not None:
            facts = {**self._facts, "size": self._size, "entries": self._written}
            try:
                (self._scratch / MANIFEST).write_text(json.dumps(facts), encoding="utf-8")
                shutil.rmtree(self.path, ignore_errors=True)
                self._scratch.rename(self.path)
                self._scratch = None
            except OSError:
                self._give_up()
        _make_room(self.path)

    def drop_if_damaged(self) -> bool:
        """Delete the pack if its arrays were mapped and are not what was written; reads all of it."""
        if self._entries is None or all(entry.sound for entry in self._entries):
            return False
        shutil.rmtree(self.path, ignore_errors=True)
        return True

    def _open(self) -> list[_Entry] | None:
        """The entries with their arrays mapped; None where sizes are not as they were written."""
        try:
            facts = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            if not all(entry["shape"] and entry["arrays"] for entry in facts["entries"]):
                return None
            if any(facts[key] != self._facts[key] for key in ("format", "fingerprint", "weights")):
                return None
            return _mapped_entries(self.path, facts)
        except DAMAGED:
            return None

    def _keep(self, index: int, shape: tuple[int, int], made: Arrays) -> None:
        """Write arrays into the scratch folder; without room or rights nothing is kept, and nothing fails."""
        try:
            if index == 0:
                if limit_bytes() == 0:
                    return
                packs_folder().mkdir(parents=True, exist_ok=True)
                self._scratch = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=packs_folder()))
            if self._scratch is None:
                return
            needed = sum(array.nbytes for array in made.values())
            if shutil.disk_usage(self._scratch).free < 2 * needed + (1 << 28):
                raise OSError("the disk is nearly full")
            arrays = {}
            with (self._scratch / DATA).open("ab") as file:
                for name, array in made.items():
                    offset = self._size + -self._size % ALIGNMENT
                    file.write(bytes(offset - self._size))
                    file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
                    self._size = offset + array.nbytes
                    arrays[name] = (array.dtype.name, list(array.shape), offset, checksum(array))
            self._written.append({"shape": list(shape), "arrays": arrays})
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch = None


def _mapped_entries(folder: Path, facts: dict[str, Any]) -> list[_Entry]:
    """What a manifest lists, mapped; one of `DAMAGED` if the file is another than it says."""
    # Copy on write: nobody writes, but the kernels are compiled for writable arrays.
    data = np.asarray(np.memmap(folder / DATA, np.uint8, mode="c"))
    if len(data) != facts["size"]:
        raise ValueError(f"{folder / DATA}: not {facts['size']} bytes")
    return [
        _Entry(
            entry["shape"],
            {name: _cut(data, *written[:3]) for name, written in entry["arrays"].items()},
            {name: written[3] for name, written in entry["arrays"].items()},
        )
        for entry in facts["entries"]
    ]


def _cut(data: NDArray[np.uint8], dtype: str, shape: list[int], offset: int) -> NDArray[Any]:
    """An array of the file; ValueError if it does not lie in there."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    if offset % ALIGNMENT or min(shape) < 0 or not 0 <= offset <= len(data) - nbytes:
        raise ValueError(f"no {dtype} {shape} at byte {offset} of {len(data)}")
    return data[offset : offset + nbytes].view(dtype).reshape(shape)


def _make_room(newest: Path) -> None:
    """Delete the longest unused packs until the rest fits the limit; the newest stays if it fits alone.

    What is no pack, because a process was killed or a file is damaged, goes when it is a day old.
    """
    left, packs = limit_bytes(), cached_packs()
    with contextlib.suppress(OSError):
        for folder in set(packs_folder().iterdir()) - {pack.path for pack in packs}:
            if folder.stat().st_mtime < time.time() - DAY:
                shutil.rmtree(folder, ignore_errors=True)
    for pack in sorted(packs, key=lambda pack: (pack.path != newest, -pack.last_used)):
        left -= pack.nbytes
        if left < 0:
            shutil.rmtree(pack.path, ignore_errors=True)
