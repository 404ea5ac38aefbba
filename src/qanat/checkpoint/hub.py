"""The Hugging Face hub: what a model needs is downloaded into the shared cache, or found there.

One short question decides whether the hub can be reached; it has a deadline of its own, because name
lookups and silent servers obey no client's time-out. Downloads then resume where they were interrupted.
Source: docs/frontend.md, section 11. The client library is imported only when a function runs.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from qanat.checkpoint.hub_cache import (
    cache_folder,
    cached_snapshot,
    missing_parts,
    note_commit,
    repository_folder,
    require_endpoint,
)
from qanat.checkpoint.hub_download import download_blob
from qanat.checkpoint.hub_messages import explain, translate
from qanat.checkpoint.resolve import BUILT_IN
from qanat.checkpoint.strict_json import as_one_line
from qanat.errors import CheckpointError, ModelNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

__all__ = ["fetch", "pull"]

Files = Literal["all", "tokenizer"]

REPLY_TIMEOUT = 4.0  # seconds the hub may take to answer the first question
DEADLINE = 6.0  # seconds after which we stop waiting for that answer, whatever holds it up

LARGE = 8_000_000  # bytes from which an interrupted file is worth resuming

WANTED = ("*.json", "*.jinja", "*.safetensors")  # no .bin, .pt, .gguf, .onnx ...
NOT_WANTED = ("*/*", "*.bin.index.json")  # only the top folder
WEIGHTS = ("*.safetensors", "*.safetensors.index.json")


def pull(model: str, revision: str | None = None, progress: bool = True) -> Path:
    """Download a model completely, or what is missing of it; returns its folder in the cache.

    Args:
        model: a hub id, e.g. "Qwen/Qwen3.5-0.8B".
        revision: branch, tag or commit; None is the main branch.
        progress: show bars on standard error.

    Raises:
        ModelNotFoundError: no such repository or revision, no permission, or the hub cannot be reached.
        UnsupportedError: the repository has no safetensors; the built-in model; a folder on this disk.
        CheckpointError: the disk is too small, or the repository is incomplete.
    """
    if model == BUILT_IN:
        raise UnsupportedError(f"{BUILT_IN!r} is part of qanat: there is nothing to pull")
    with suppress(OSError, ValueError, RuntimeError):  # what cannot be the name of a folder
        if Path(model).expanduser().is_dir():
            raise UnsupportedError(f"{as_one_line(model)} is a folder already: use it with -m")
    if _offline(None):
        raise ModelNotFoundError(f"{model}: HF_HUB_OFFLINE is set, so nothing can be pulled; unset it")
    return _download(model, revision, _ask(model, revision), "all", progress)


def fetch(
    model: str, *, revision: str | None = None, offline: bool | None = None, files: Files = "all"
) -> Path:
    """Find a hub model in the cache or download it.

    When the hub cannot be reached or refuses, a complete copy in the cache is used, with a note on standard
    error. Offline, the network is not touched at all.

    Raises:
        ModelNotFoundError: see `pull`; or offline, and the cache has no complete copy.
        UnsupportedError: the repository has no safetensors.
        CheckpointError: the disk is too small, or the repository is incomplete.
    """
    if _offline(offline):
        cached = cached_snapshot(model, revision)
        missing = missing_parts(cached, files) if cached else []
        if cached is None or missing:
            lacks = f"it lacks {missing[0]}" if missing else ""
            raise ModelNotFoundError(explain("offline", model, revision, lacks))
        return cached
    try:
        info = _ask(model, revision)
        return _download(model, revision, info, files, progress=sys.stderr.isatty())
    except ModelNotFoundError as problem:
        cached = cached_snapshot(model, revision)
        if cached is None or missing_parts(cached, files):
            raise
        print(f"qanat: {problem}\nqanat: using the complete copy in {cached}", file=sys.stderr)
        return cached


def _offline(offline: bool | None) -> bool:
    """Whether to stay off the network: the caller says so, or the environment does."""
    said = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return bool(offline) or said.upper() in {"1", "ON", "YES", "TRUE"}


def _ask(model: str, revision: str | None) -> ModelInfo:
    """Ask the hub for a repository's commit and files, within `DEADLINE` seconds."""
    require_endpoint()
    answer: list[Any] = []

    def ask() -> None:
        try:
            from huggingface_hub import HfApi

            api = HfApi(library_name="qanat")
            info = api.model_info(model, revision=revision, timeout=REPLY_TIMEOUT, files_metadata=True)
            answer.append(info)
        except BaseException as problem:  # carried over to the thread that waits
            answer.append(problem)

    thread = threading.Thread(target=ask, name="qanat-hub", daemon=True)
    thread.start()
    thread.join(DEADLINE)
    if not answer:
        raise ModelNotFoundError(explain("unreachable", model, revision, f"silent for {DEADLINE:g} seconds"))
    if isinstance(answer[0], BaseException):
        raise translate(answer[0], model, revision) from None
    info: ModelInfo = answer[0]
    names = [sibling.rfilename for sibling in info.siblings or ()]
    if not all(isinstance(name, str) for name in (info.sha or "", *names)):
        raise ModelNotFoundError(explain("strange", model, revision, "its answer is no list of files"))
    return info


def _download(model: str, revision: str | None, info: ModelInfo, files: Files, progress: bool) -> Path:
    """Fetch what is missing of a commit, file by file, the small ones first.

    One at a time, so that Ctrl-C ends it at once; every request has a time-out, which the client's own
    function for whole repositories does not give to all of its requests.
    """
    if info.sha is None:
        raise ModelNotFoundError(explain("strange", model, revision, "its answer names no commit"))
    not_wanted = NOT_WANTED + (WEIGHTS if files == "tokenizer" else ())
    sizes = {
        sibling.rfilename: sibling.size or 0
        for sibling in info.siblings or ()
        if _matches(sibling.rfilename, WANTED) and not _matches(sibling.rfilename, not_wanted)
    }
    _refuse_other_formats(model, info, sizes, files)
    snapshot = repository_folder(model) / "snapshots" / info.sha
    to_fetch = sorted((name for name in sizes if not (snapshot / name).is_file()), key=sizes.__getitem__)
    _refuse_small_disk(model, sum(sizes[name] for name in to_fetch))
    try:
        with _progress_bars(progress):
            for name in to_fetch:
                _download_file(model, name, info.sha, sizes[name])
    except KeyboardInterrupt:
        print(f"\nqanat: interrupted; the next download of {model} goes on from here", file=sys.stderr)
        raise
    except CheckpointError:
        raise
    except Exception as problem:
        raise translate(problem, model, revision) from None
    missing = missing_parts(snapshot, files)
    if missing:
        raise CheckpointError(f"{model}: the repository is incomplete, it lacks {', '.join(missing[:3])}")
    note_commit(model, revision, info.sha)
    return snapshot


def _download_file(model: str, name: str, commit: str, size: int) -> None:
    from huggingface_hub import hf_hub_download

    if size >= LARGE:
        download_blob(model, name, commit, REPLY_TIMEOUT)
    # Downloads small files; of a large one it only makes the link, as it finds the blob.
    hf_hub_download(model, name, revision=commit, library_name="qanat", etag_timeout=REPLY_TIMEOUT)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _refuse_other_formats(model: str, info: ModelInfo, sizes: dict[str, int], files: Files) -> None:
    if files == "tokenizer" or _matches(" ".join(sizes), ("*.safetensors*",)):
        return
    names = sorted(sibling.rfilename for sibling in info.siblings or ())
    other = [name for name in names if name.endswith((".gguf", ".bin", ".pt", ".pth", ".onnx"))]
    has = f"only {other[0]}" if other else "no weights"
    raise UnsupportedError(f"{model}: the repository has {has}; qanat reads .safetensors, use another one")


def _refuse_small_disk(model: str, to_fetch: int) -> None:
    """Compare what is still to be downloaded with what is free, before the first byte."""
    started = sum(p.stat().st_size for p in repository_folder(model).glob("blobs/*.incomplete"))
    needed = to_fetch - started
    folder = cache_folder()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise CheckpointError(
            f"{model}: {needed / 1e9:.1f} GB are still to be downloaded, and only {free / 1e9:.1f} GB are "
            f"free in {folder}; free some space, or set HF_HOME to a folder on a larger disk"
        )


@contextmanager
def _progress_bars(shown: bool) -> Iterator[None]:
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if shown or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
