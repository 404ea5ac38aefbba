"""One large file of the hub, downloaded so that an interruption costs seconds and not gigabytes.

The hub's client resumes while it runs, but starts an interrupted file again the next time. Here the bytes
so far stay beside the cache's blobs, and the next run asks for the rest. What was put together from pieces is
held against the SHA-256 that the hub names for large files before it enters the cache.
"""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path
from typing import Any

from qanat.checkpoint.hub_cache import cache_folder, repository_folder
from qanat.errors import CheckpointError

__all__ = ["download_blob"]

CHUNK = 1 << 20  # bytes between two writes: the most that an interruption loses
ATTEMPTS = 5  # in a row, without a single new byte
PAUSE = 1.0  # seconds between attempts
TIMEOUT = 10.0  # seconds without a byte

_SHA256 = re.compile(r"[0-9a-f]{64}")


def download_blob(model: str, name: str, commit: str, timeout: float) -> None:
    """Download a file into the blobs of the cache, where the client will find it.

    Args:
        model: hub id.
        name: of a file in the repository.
        commit: which revision of it.
        timeout: seconds that the hub may take to describe the file.

    Raises:
        CheckpointError: what arrived is not what the hub announced.
        Exception: whatever the client raises; `hub_messages.translate` explains it.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    url = hf_hub_url(model, name, revision=commit)
    described = get_hf_file_metadata(url, timeout=timeout, library_name="qanat")
    etag, size = described.etag, described.size
    if etag is None or size is None or not re.fullmatch(r"[\w-]+", etag):
        return  # not enough to resume by: left to the client
    blob = repository_folder(model) / "blobs" / etag
    lock = cache_folder() / ".locks" / repository_folder(model).name / f"{etag}.lock"  # the client's own
    blob.parent.mkdir(parents=True, exist_ok=True)
    lock.parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if blob.exists():
            return
        partial = blob.with_name(f"{etag}.qanat.incomplete")
        _fetch_rest(url, name, partial, size)
        _verify(model, name, partial, etag)
        partial.replace(blob)


def _fetch_rest(url: str, name: str, partial: Path, size: int) -> None:
    """Append what is missing, again and again until nothing is; gives up when no byte comes any more."""
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]
    from huggingface_hub.utils.tqdm import tqdm

    have = partial.stat().st_size if partial.exists() else 0
    if have > size:
        partial.unlink()
        have = 0
    headers = build_hf_headers(library_name="qanat") | {"Accept-Encoding": "identity"}
    failures = 0
    progress: Any = tqdm
    with progress(desc=name[-40:], total=size, initial=have, unit="B", unit_scale=True) as bar:
        while have < size:
            problem: Exception | None = None
            try:
                _append(url, headers, partial, have, bar)
            except HfHubHTTPError:
                raise
            except Exception as caught:  # the connection broke, in whatever way
                problem = caught
            before, have = have, partial.stat().st_size if partial.exists() else 0
            failures = 0 if have > before else failures + 1
            if failures >= ATTEMPTS:
                raise problem or CheckpointError(f"{name}: the hub stops after {have} of {size} bytes")
            if have < size:
                time.sleep(PAUSE)
        if have > size:
            partial.unlink()
            raise CheckpointError(f"{name}: the hub sent {have} bytes of a file of {size}; download it again")


def _append(url: str, headers: dict[str, str], partial: Path, have: int, bar: Any) -> None:
    """Ask for the bytes from `have` on, and append them to the file as they come."""
    from huggingface_hub import get_session
    from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined]

    wanted = headers | ({"Range": f"bytes={have}-"} if have else {})
    with get_session().stream("GET", url, headers=wanted, timeout=TIMEOUT, follow_redirects=True) as answer:
        if answer.status_code == 416:  # there is no such range: the bytes so far belong to another file
            partial.unlink(missing_ok=True)
            return
        if answer.status_code >= 400:
            answer.read()
        hf_raise_for_status(answer)
        mode = "ab" if answer.status_code == 206 else "wb"  # 200: the whole file, from the start
        if mode == "wb" and have:
            bar.update(-have)
        with partial.open(mode) as out:
            for chunk in answer.iter_bytes(CHUNK):
                out.write(chunk)
                bar.update(len(chunk))


def _verify(model: str, name: str, partial: Path, etag: str) -> None:
    """Compare with the SHA-256 that the hub gives large files as their etag; others have none to compare."""
    if not _SHA256.fullmatch(etag):
        return
    with partial.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != etag:
        partial.unlink()
        raise CheckpointError(
            f"{model}: {name} arrived damaged (its SHA-256 is not the hub's); download it again"
        )
