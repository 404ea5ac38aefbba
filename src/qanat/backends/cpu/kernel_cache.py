"""Where compiled kernels are kept, so that only the first run ever compiles.

Numba's own cache looks at one source file at a time and would not notice a change in a function that a
kernel calls. So the folder's name is a digest of every source file of `kernels`, `simd` and `common` (whose
constants kernels hold), of Python's and Numba's version and of the processor: other sources mean another
folder. A few old folders are kept.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import llvmlite
import llvmlite.binding
import numba

from qanat.backends.cpu.simd.features import INSTRUCTION_SET
from qanat.errors import RequestError
from qanat.paths import REMEDY, cache_root

__all__ = ["compilation_notice", "forget_kernels", "is_compiled", "kernel_folder", "use_kernel_cache"]

KEPT = 8
"""Folders of other versions that survive, the most recently used ones."""


def kernel_folder() -> Path:
    """The folder for this package's sources on this processor."""
    digest = sha256()
    package = Path(__file__).parent
    rooms = (package / "kernels", package / "simd", package.parent / "common")
    for source in sorted(file for room in rooms for file in room.glob("*.py")):
        # Numba takes nothing from a file of another place or time, even with the same bytes.
        digest.update(f"{source}\0{source.stat().st_mtime_ns}\0".encode() + source.read_bytes() + b"\0")
    host = llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten()
    versions = sys.implementation.cache_tag, numba.__version__, llvmlite.__version__
    digest.update(repr((versions, host, INSTRUCTION_SET)).encode())
    return cache_root() / "kernels" / digest.hexdigest()[:20]


def use_kernel_cache() -> None:
    """Point Numba at the folder; must run before the first `@njit(cache=True)` of the package.

    Without a writable place it is a temporary one: kernels are compiled at every start, and nothing else
    changes. (Left alone, Numba would look beside the sources, where it takes what is out of date, or fail.)

    Raises:
        RequestError: Numba is told not to compile.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        raise RequestError(
            "NUMBA_DISABLE_JIT: the CPU backend only exists compiled; unset it, or choose reference"
        )
    folder = kernel_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.touch()  # its age says when it was last used
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="qanat-kernels-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    else:
        with suppress(OSError):  # another process forgets them too
            _forget_old(folder)
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]


def compilation_notice(weights: str) -> str | None:
    """What to tell a person who is about to wait for the kernels of a mode; None if they are compiled."""
    if is_compiled(weights):
        return None
    folder = kernel_folder()
    if str(folder) == numba.config.CACHE_DIR:  # type: ignore[attr-defined]
        return "compiling the kernels for this processor: about half a minute, once"
    return (
        "compiling the kernels for this processor: about half a minute at every start, as "
        f"{folder.parent} cannot be written ({REMEDY})"
    )


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
