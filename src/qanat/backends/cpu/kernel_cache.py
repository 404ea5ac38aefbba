"""Where compiled kernels are kept, so that only the first run ever compiles.

Numba's own cache looks at one source file at a time and would not notice a change in a function that a
kernel calls. So the folder's name is a digest of every source file of `kernels`, `simd` and `common` (whose
constants kernels hold), of Numba's version and of the processor: other sources mean another folder. A few
old folders are kept.
"""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path

import llvmlite
import llvmlite.binding
import numba

from qanat.paths import cache_root

__all__ = ["forget_kernels", "is_compiled", "kernel_folder", "use_kernel_cache"]

KEPT = 4
"""Folders of other versions that survive, the most recently used ones."""


def kernel_folder() -> Path:
    """The folder for this package's sources on this processor."""
    digest = sha256()
    package = Path(__file__).parent
    rooms = (package / "kernels", package / "simd", package.parent / "common")
    for source in sorted(file for room in rooms for file in room.glob("*.py")):
        name = source.relative_to(package.parent).as_posix()
        digest.update(name.encode() + b"\0" + source.read_bytes() + b"\0")
    host = llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten()
    forced = os.environ.get("QANAT_SIMD", "")  # see `simd.features`: other instructions, other code
    digest.update(repr((numba.__version__, llvmlite.__version__, host, forced)).encode())
    return cache_root() / "kernels" / digest.hexdigest()[:20]


def use_kernel_cache() -> None:
    """Point Numba at the folder; must run before the first `@njit(cache=True)` of the package.

    Without a writable place kernels are compiled at every start, and nothing else changes.
    """
    folder = kernel_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.touch()  # its age says when it was last used
        _forget_old(folder)
    except OSError:
        return
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]


def is_compiled(weights: str) -> bool:
    """Whether the kernels of a mode, "int8" or "bf16", lie in the folder."""
    return any(kernel_folder().rglob(f"run_{weights}.run_{weights}-*.nbc"))


def forget_kernels() -> None:
    """Delete what is compiled: a damaged file is compiled again."""
    shutil.rmtree(kernel_folder(), ignore_errors=True)


def _forget_old(folder: Path) -> None:
    others = [other for other in folder.parent.iterdir() if other != folder and other.is_dir()]
    others.sort(key=lambda other: other.stat().st_mtime, reverse=True)
    for old in others[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
