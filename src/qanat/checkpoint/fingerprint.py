"""What identifies a checkpoint's bytes without reading gigabytes."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from qanat.checkpoint.tensor_view import TensorView

__all__ = ["fingerprint"]


def fingerprint(views: Iterable[TensorView]) -> str:
    """A digest of the weight files' headers, sizes and contents' names, in hexadecimal.

    A file in a hub cache is a link to a blob whose name is the hash of its contents. Of any other file the
    time of its last change stands for the contents: rewriting it in place changes the fingerprint.
    """
    digest = sha256()
    for file in sorted({view.file for view in views}):
        target = file.resolve()
        status = target.stat()
        with target.open("rb") as stream:
            length = min(int.from_bytes(stream.read(8), "little"), status.st_size)
            digest.update(stream.read(length))
        digest.update(f"\0{file.name}\0{status.st_size}\0".encode())
        digest.update((target.name if _is_blob(file, target) else str(status.st_mtime_ns)).encode())
    return digest.hexdigest()


def _is_blob(file: Path, target: Path) -> bool:
    return file != target and target.parent.name == "blobs"
