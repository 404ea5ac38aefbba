"""Packed weights on disk: packing a checkpoint once, mapping it ever after.

One folder per checkpoint and mode, under `packs/` in qanat's cache; in it every packed array as a .npy file
(its data start at a multiple of 64 bytes, as the kernels like it), numbered in the order in which the model
asks for them, and a manifest. A folder appears under its name only when it is complete. Old ones go, the
longest unused first, when all of them together exceed the limit.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.errors import RequestError
from qanat.paths import cache_root

__all__ = ["CachedPack", "PackCache", "cached_packs", "clear_packs", "limit_bytes"]

FORMAT = 1  # raise the number when the layout of packed weights changes
MANIFEST = "manifest.json"
LIMIT = "QANAT_CACHE_LIMIT"
DEFAULT_LIMIT = 40 << 30

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
        self._entries = self._read_manifest()

    @property
    def hit(self) -> bool:
        """Whether the pack is there, so that nothing has to be packed."""
        return self._entries is not None

    def arrays(self, shape: tuple[int, int], make: Callable[[], Arrays]) -> Arrays:
        """The arrays of the next weight [out, in]: mapped from the pack, or made now and kept for it."""
        index, self._count = self._count, self._count + 1
        if self._entries is not None:
            entry = self._entries[index] if index < len(self._entries) else None
            if entry is not None and tuple(entry["shape"]) == shape:
                return self._map(index, list(entry["arrays"]))
            self._entries = None  # another order of weights: a pack of other sources; pack anew
        made = make()
        self._keep(index, shape, made)
        return made

    def seal(self) -> None:
        """All weights were asked for: what was packed takes its name, and old packs make room."""
        if self.hit:
            os.utime(self.path / MANIFEST)
        if self._scratch is None:
            return
        facts = {**self._facts, "entries": self._written}
        try:
            (self._scratch / MANIFEST).write_text(json.dumps(facts), encoding="utf-8")
            shutil.rmtree(self.path, ignore_errors=True)
            self._scratch.rename(self.path)
        except OSError:
            shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch = None
        _make_room(self.path)

    def _read_manifest(self) -> list[dict[str, Any]] | None:
        try:
            facts = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            same = all(facts[key] == self._facts[key] for key in ("format", "fingerprint", "weights"))
            entries: list[dict[str, Any]] = facts["entries"]
            whole = all(
                (self.path / file_name(index, name)).stat().st_size == size
                for index, entry in enumerate(entries)
                for name, size in entry["arrays"].items()
            )
            return entries if same and whole else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _map(self, index: int, names: list[str]) -> Arrays:
        return {
            # Copy on write: nobody writes, but the kernels are compiled for writable arrays.
            name: np.asarray(np.load(self.path / file_name(index, name), mmap_mode="c", allow_pickle=False))
            for name in names
        }

    def _keep(self, index: int, shape: tuple[int, int], made: Arrays) -> None:
        """Write arrays into the scratch folder; without room or rights nothing is kept, and nothing fails."""
        try:
            if index == 0:
                if limit_bytes() == 0:
                    return
                packs_folder().mkdir(parents=True, exist_ok=True)
                self._scratch = Path(tempfile.mkdtemp(prefix="unfinished-", dir=packs_folder()))
            if self._scratch is None:
                return
            needed = sum(array.nbytes for array in made.values())
            if shutil.disk_usage(self._scratch).free < 2 * needed + (1 << 28):
                raise OSError("the disk is nearly full")
            sizes = {}
            for name, array in made.items():
                file = self._scratch / file_name(index, name)
                np.save(file, array, allow_pickle=False)
                sizes[name] = file.stat().st_size
            self._written.append({"shape": list(shape), "arrays": sizes})
        except OSError:
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None


def _make_room(newest: Path) -> None:
    """Delete the longest unused packs until the rest fits the limit; the newest stays if it fits alone."""
    left = limit_bytes()
    for pack in sorted(cached_packs(), key=lambda pack: (pack.path != newest, -pack.last_used)):
        left -= pack.nbytes
        if left < 0:
            shutil.rmtree(pack.path, ignore_errors=True)
