"""The hub's cache on disk, shared with every other program that uses it: find, list, remove.

Layout (the hub client's documented one): `models--ORG--NAME/refs/BRANCH` holds a commit,
`snapshots/COMMIT/` the files as links into `blobs/`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from qanat.checkpoint.config import ARCHITECTURES
from qanat.checkpoint.index import INDEX, shard_names
from qanat.checkpoint.resolve import BUILT_IN, HUB_ID
from qanat.checkpoint.strict_json import as_one_line, file_exists, read_json_file
from qanat.errors import CheckpointError, ModelNotFoundError, UnsupportedError

__all__ = [
    "CachedModel",
    "cache_folder",
    "cached_models",
    "cached_snapshot",
    "missing_parts",
    "note_commit",
    "removable",
    "remove_cached",
    "repository_folder",
    "require_endpoint",
]

_COMMIT = re.compile(r"[0-9a-f]{40}")
_MODEL_TYPES = {model_type for types in ARCHITECTURES.values() for model_type in types[:2]}


@dataclass(frozen=True)
class CachedModel:
    """One revision of a model in the hub's cache."""

    name: str  # hub id
    path: Path  # folder of the snapshot
    commit: str
    revisions: tuple[str, ...]  # branches and tags that point to it
    nbytes: int  # on disk
    complete: bool  # nothing that a model needs is missing


def require_endpoint() -> None:
    """Refuse an HF_ENDPOINT that is no address; the hub's client would fail over it while it is imported.

    Raises:
        ModelNotFoundError: it cannot be read as an address.
    """
    address = os.environ.get("HF_ENDPOINT", "")
    try:
        _ = urlsplit(address).port
    except ValueError as problem:
        raise ModelNotFoundError(
            f"HF_ENDPOINT is {as_one_line(address)}, which is no address of a hub ({problem}); correct or "
            "unset it"
        ) from None


def cache_folder() -> Path:
    """Give the folder of the shared cache (HF_HUB_CACHE, or HF_HOME/hub)."""
    require_endpoint()
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def repository_folder(model: str) -> Path:
    """Give the folder of a hub id in the cache, whether it is there or not."""
    return cache_folder() / ("models--" + model.replace("/", "--"))


def cached_snapshot(model: str, revision: str | None) -> Path | None:
    """Find the snapshot of a revision in the cache without asking the network; it may be incomplete."""
    repository = repository_folder(model)
    commit = revision or "main"
    if not _COMMIT.fullmatch(commit):
        reference = repository / "refs" / commit
        if ".." in Path(commit).parts or not reference.is_file():
            return None
        commit = reference.read_text(encoding="utf-8", errors="replace").strip()
        if not _COMMIT.fullmatch(commit):
            return None
    snapshot = repository / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None


def note_commit(model: str, revision: str | None, commit: str) -> None:
    """Note which commit a branch or tag pointed to, for later use without the network.

    Called when the commit is complete, so that an interrupted update leaves the older copy in use offline.
    """
    if revision is not None and _COMMIT.fullmatch(revision):
        return
    reference = repository_folder(model) / "refs" / (revision or "main")
    with contextlib.suppress(OSError):  # a read-only cache still serves what it holds
        if not reference.is_file() or reference.read_text(encoding="utf-8") != commit:
            reference.parent.mkdir(parents=True, exist_ok=True)
            partial = reference.with_name(f"{reference.name}.{os.getpid()}.partial")
            partial.write_text(commit, encoding="utf-8")
            partial.replace(reference)


def missing_parts(folder: Path, files: Literal["all", "tokenizer"]) -> list[str]:
    """Name the files that a model needs and the folder lacks; [] when it is complete."""
    needed = ["config.json", "tokenizer.json"] if files == "all" else ["tokenizer.json"]
    missing = [name for name in needed if not file_exists(folder / name)]
    if files == "tokenizer":
        return missing
    try:
        shards = shard_names(folder)
    except CheckpointError:  # neither weights nor an index that could be read
        return [*missing, INDEX]
    return missing + [name for name in shards if not file_exists(folder / name)]


def cached_models() -> list[CachedModel]:
    """List the models in the cache that qanat can run, by name and commit; others are left out."""
    folder = cache_folder()
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cache = scan_cache_dir(folder)
    except CacheNotFound:
        return []
    except ValueError:  # the client's word for a file in the place of the folder
        raise CheckpointError(
            f"{cache_folder()} is no folder; set HF_HUB_CACHE or HF_HOME to the folder of the cache"
        ) from None
    found = [
        CachedModel(
            name=repo.repo_id,
            path=Path(revision.snapshot_path),
            commit=revision.commit_hash,
            revisions=tuple(sorted(revision.refs)),
            nbytes=revision.size_on_disk,
            complete=not missing_parts(Path(revision.snapshot_path), "all"),
        )
        for repo in cache.repos
        if repo.repo_type == "model"
        for revision in repo.revisions
        if _is_ours(Path(revision.snapshot_path))
    ]
    return sorted(found, key=lambda model: (model.name, model.commit))


def _is_ours(snapshot: Path) -> bool:
    try:
        config = read_json_file(snapshot / "config.json", CheckpointError)
    except CheckpointError:
        return False
    return config.get("model_type") in _MODEL_TYPES


def removable(model: str) -> Path:
    """Find the folder that `remove_cached` deletes.

    Raises:
        ModelNotFoundError: it is not in the cache.
        UnsupportedError: the built-in model.
    """
    if model == BUILT_IN:
        raise UnsupportedError(f"{BUILT_IN!r} is part of qanat and cannot be removed")
    folder = repository_folder(model)
    if not HUB_ID.fullmatch(model) or ".." in model or folder.is_symlink() or not folder.is_dir():
        cache = cache_folder()
        prefix = "models--"
        there = sorted(p.name[len(prefix) :].replace("--", "/", 1) for p in cache.glob(f"{prefix}*"))
        holds = f"it holds {', '.join(there[:8])}" if there else "it holds no model"
        raise ModelNotFoundError(f"{as_one_line(model)} is not in the cache {cache}; {holds}")
    return folder


def remove_cached(model: str) -> int:
    """Delete a hub model from the cache, unfinished downloads included; returns the bytes freed.

    Raises what `removable` raises.
    """
    folder = removable(model)
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    freed = sum(path.stat().st_size for path in files)
    shutil.rmtree(folder)
    return freed
