"""What the user calls a model becomes a folder: a path, the built-in model, or a repository of the hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from qanat.checkpoint.strict_json import as_one_line, shown
from qanat.errors import CheckpointError, ModelNotFoundError, UnsupportedError

__all__ = ["BUILT_IN", "HUB_ID", "Files", "resolve_model"]

BUILT_IN = "pocket"
Files = Literal["all", "tokenizer"]

_BUILT_IN_FOLDER = Path(__file__).resolve().parent.parent / "pocket_model"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", re.ASCII)


def resolve_model(
    model: str | Path, *, revision: str | None = None, offline: bool | None = None, files: Files = "all"
) -> Path:
    """Find the folder of a model, downloading it if it is a hub id that is not complete on disk.

    Args:
        model: `"pocket"` for the built-in model; a folder (always, if it is a `Path`); or a hub id such as
            `"Qwen/Qwen3.5-0.8B"`. A folder of the same name goes before the hub.
        revision: branch, tag or commit; only for a hub id.
        offline: use only what is on disk; None asks the environment (HF_HUB_OFFLINE).
        files: `"tokenizer"` leaves the weights out.

    Raises:
        ModelNotFoundError: there is no such model, or it cannot be reached.
        CheckpointError: a file was given instead of a folder.
        UnsupportedError: a revision of something that has none.
    """
    if not isinstance(model, str | Path) or not isinstance(revision, str | None):
        raise ModelNotFoundError(
            f"{shown(model)}, revision {shown(revision)}: a model is named by a text or a Path, "
            "a revision by a text or None"
        )
    if isinstance(model, str) and model == BUILT_IN:
        _refuse_revision(model, revision)
        if not (_BUILT_IN_FOLDER / "config.json").is_file():
            raise ModelNotFoundError(
                f"the built-in model is not in {_BUILT_IN_FOLDER}; this installation of qanat is incomplete"
            )
        return _BUILT_IN_FOLDER
    name = str(model)
    if not name or "\0" in name:
        raise ModelNotFoundError(
            f"{as_one_line(name)} names no model; give a folder, a hub id or {BUILT_IN!r}"
        )
    try:
        folder = Path(name).expanduser()
        if folder.is_dir():
            _refuse_revision(name, revision)
            return folder
        if folder.is_file():
            raise CheckpointError(
                f"{folder} is a file; give the folder that holds config.json and the weights"
            )
    except RuntimeError:  # ~somebody without a home
        raise ModelNotFoundError(f"{as_one_line(name)}: no such home folder") from None
    except OSError as problem:  # a name too long for the system, an unreadable parent
        raise ModelNotFoundError(f"{as_one_line(name)}: {problem.strerror or problem}") from None
    if isinstance(model, Path) or not HUB_ID.fullmatch(name) or "--" in name or ".." in name:
        raise ModelNotFoundError(
            f"{as_one_line(name)}: there is no such folder, and it is no hub id (like Qwen/Qwen3.5-0.8B)"
        )
    if revision is not None and (not revision.isprintable() or ".." in revision or not revision.strip("/ ")):
        raise ModelNotFoundError(f"{name}: {as_one_line(revision)} is no name of a branch, tag or commit")
    from qanat.checkpoint.hub import fetch  # which needs BUILT_IN of this module

    return fetch(name, revision=revision, offline=offline, files=files)


def _refuse_revision(model: str, revision: str | None) -> None:
    if revision is not None:
        raise UnsupportedError(
            f"revision {as_one_line(revision)}: only a hub id has revisions, not {model!r}"
        )
