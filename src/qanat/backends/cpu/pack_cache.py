"""Packed weights on disk: packing a checkpoint once, mapping it ever after.

One folder per checkpoint and mode, under `packs/` in qanat's cache; in it every packed array as a .npy file
(its data start at a multiple of 64 bytes, as the kernels like it), numbered in the order in which the model
asks for them, and a manifest. A folder appears under its name only when it is complete. Old ones go, the
longest unused first, when all of them together exceed the limit.
"""

from __future__ import annotations

import contextlib
import json
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

__all__ = ["CachedPack", "PackCache", "cached_packs", "clear_packs", "limit_bytes"]

FORMAT = 3  # raise the number when the layout of packed weights changes
MANIFEST = "manifest.json"
LIMIT = "QANAT_CACHE_LIMIT"
DEFAULT_LIMIT = 40 << 30
UNFINISHED = "unfinished-"
DAY = 86_400  # seconds

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


def clear_packs() -> int:
    """Delete every pack, unfinished ones too; returns the bytes that were freed.

    A running model keeps what it has mapped: the system frees it when that process ends.
    """
    freed = sum(file.stat().st_size for file in packs_folder().rglob("*") if file.is_file())
    shutil.rmtree(packs_folder(), ignore_errors=True)
    return freed


def file_name(index: int, name: str) -> str:
    """The file of array `name` of the weight asked for as number `index`."""
    return f"{index:04}.{name}.npy"


class PackCache:
    """The packed arrays of one checkpoint in one mode, in the order in which they are asked for.

    Args:
        fingerprint: what identifies the checkpoint's bytes.
        model: its name, for listings.
        weights: the mode.
    """

    def __init__(self, fingerprint: str, model: str, weights: str) -> None:
        self._facts = {"format": FORMAT, "fingerprint": fingerprint, "model": model, "weights": weights}
        self.path = packs_folder() / f"{fingerprint[:24]}-{weights}-{FORMAT}"
        self._count = 0
        self._written: list[dict[str, Any]] = []
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
            if entry is not None and entry["shape"] == list(shape):
                found: Arrays = entry["arrays"]
                return found
            self._entries = None  # another order of weights: a pack of other sources; pack anew
        try:
            made = make()
        except BaseException:
            self._give_up()
            raise
        self._keep(index, shape, made)
        return made

    def seal(self) -> None:
        """All weights were asked for: what was packed takes its name, and old packs make room."""
        if self.hit:
            with contextlib.suppress(OSError):
                os.utime(self.path / MANIFEST)
        if self._scratch is None:
            return
        facts = {**self._facts, "entries": self._written}
        try:
            (self._scratch / MANIFEST).write_text(json.dumps(facts), encoding="utf-8")
            shutil.rmtree(self.path, ignore_errors=True)
            self._scratch.rename(self.path)
            self._scratch = None
        except OSError:
            self._give_up()
        _make_room(self.path)

    def _open(self) -> list[dict[str, Any]] | None:
        """The entries with their arrays mapped, or None where anything is not as it was written."""
        try:
            facts = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            if not all(entry["shape"] and entry["arrays"] for entry in facts["entries"]):
                return None
            if any(facts[key] != self._facts[key] for key in ("format", "fingerprint", "weights")):
                return None
            return [
                {
                    "shape": entry["shape"],
                    "arrays": {
                        name: _mapped(self.path / file_name(index, name), *written)
                        for name, written in entry["arrays"].items()
                    },
                }
                for index, entry in enumerate(facts["entries"])
            ]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError):
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
            for name, array in made.items():
                file = self._scratch / file_name(index, name)
                np.save(file, array, allow_pickle=False)
                arrays[name] = (array.dtype.name, list(array.shape), file.stat().st_size)
            self._written.append({"shape": list(shape), "arrays": arrays})
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch = None


def _mapped(file: Path, dtype: str, shape: list[int], size: int) -> NDArray[Any]:
    """A written array, mapped; ValueError if the file is another than the manifest says."""
    if file.stat().st_size != size:
        raise ValueError(f"{file}: not {size} bytes")
    # Copy on write: nobody writes, but the kernels are compiled for writable arrays.
    array = np.asarray(np.load(file, mmap_mode="c", allow_pickle=False))
    if (array.dtype.name, list(array.shape)) != (dtype, shape) or not array.flags.c_contiguous:
        raise ValueError(f"{file}: not {dtype} {shape}")
    return array


def _make_room(newest: Path) -> None:
    """Delete the longest unused packs until the rest fits the limit; the newest stays if it fits alone."""
    left = limit_bytes()
    for folder in packs_folder().glob(f"{UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_mtime < time.time() - DAY:  # left by a process that was killed
                shutil.rmtree(folder, ignore_errors=True)
    for pack in sorted(cached_packs(), key=lambda pack: (pack.path != newest, -pack.last_used)):
        left -= pack.nbytes
        if left < 0:
            shutil.rmtree(pack.path, ignore_errors=True)
