"""Where qanat keeps what it can make again, what lies there, and how it goes."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from qanat.errors import RequestError

__all__ = ["Kept", "cache_root", "clear_cache", "kept"]

KINDS = {
    "packed weights": ("packs", ("",)),
    "compiled kernels": ("kernels", ("",)),
    "tokenizer tables": ("tokenizers", ("",)),
    "vocabulary": ("", ("qwen3.5-tokenizer-", ".qwen3.5-tokenizer-")),
}
"""Kind -> the folder under the root, and how names in it begin. Whatever else lies there is not ours."""
REMEDY = "set QANAT_CACHE to a folder of yours"


@dataclass(frozen=True)
class Kept:
    """One thing that qanat keeps: a folder, or a file."""

    kind: str
    """A key of `KINDS`."""
    path: Path
    nbytes: int
    last_used: float
    """Seconds since the epoch."""


def cache_root() -> Path:
    """`$QANAT_CACHE`, else `$XDG_CACHE_HOME/qanat`, else `~/.cache/qanat`. Need not exist yet.

    Raises:
        RequestError: it is a file, or lies in a home folder that nobody knows.
    """
    own, shared = os.environ.get("QANAT_CACHE"), os.environ.get("XDG_CACHE_HOME")
    try:
        if own:
            root = Path(own).expanduser()
        else:
            root = (Path(shared) if shared else Path.home() / ".cache") / "qanat"
    except RuntimeError:  # what pathlib raises
        raise RequestError(f"{own or '~/.cache/qanat'}: there is no such home folder: {REMEDY}") from None
    if root.is_file():
        raise RequestError(f"{root} is a file, not a folder: {REMEDY}")
    return root


def kept() -> list[Kept]:
    """All that qanat keeps, kind by kind, the most recently used first.

    Raises:
        RequestError: a folder cannot be read.
    """
    root, found = cache_root(), []
    for kind, (folder, beginnings) in KINDS.items():
        try:
            paths = [path for path in (root / folder).iterdir() if path.name.startswith(beginnings)]
        except FileNotFoundError:
            continue
        except OSError as error:
            raise RequestError(f"{root / folder} cannot be read ({error.strerror}): {REMEDY}") from None
        things = []
        for path in paths:
            with suppress(FileNotFoundError):  # another process has just deleted it
                things.append(Kept(kind, path, *_measured(path)))
        found += sorted(things, key=lambda thing: -thing.last_used)
    return found


def clear_cache() -> int:
    """Delete all that qanat keeps, unfinished things too; returns the bytes that were freed.

    Running processes keep what they have mapped or loaded, and make again what they look for and miss.

    Raises:
        RequestError: something could not be deleted.
    """
    before = kept()
    for thing in before:
        if thing.path.is_dir() and not thing.path.is_symlink():
            shutil.rmtree(thing.path, ignore_errors=True)
        else:
            with suppress(OSError):
                thing.path.unlink()
    left = [thing.path for thing in before if os.path.lexists(thing.path)]
    if left:
        raise RequestError(f"{left[0]}: could not be deleted; check who owns it and its folder's permissions")
    return sum(thing.nbytes for thing in before)


def _measured(path: Path) -> tuple[int, float]:
    """The bytes of a file, or of all files in a folder, and the latest time at which one was used."""
    nbytes, used = 0, path.lstat().st_mtime
    for file in (path, *path.rglob("*")):
        with suppress(FileNotFoundError):
            nbytes += file.stat().st_size if file.is_file() else 0
            used = max(used, file.stat().st_mtime)
    return nbytes, used
