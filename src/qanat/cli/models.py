"""`qanat pull`, `list` and `rm`: the models on this disk."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import typer

from qanat.cli import invocation
from qanat.cli.input import InputError, stdin_is_terminal
from qanat.cli.output import bytes_text, note, print_json

__all__ = ["list_models", "pull", "remove"]


def pull(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A hub id such as Qwen/Qwen3.5-2B.")],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None,
) -> None:
    """Download a model, or what is missing of it; an interrupted download goes on where it stopped."""
    from qanat.checkpoint import pull as download

    folder = download(model, revision=revision, progress=sys.stderr.isatty())
    print(folder)
    note("ready: " + invocation.command(f'run -m {shlex.quote(model)} "who are you?"'))


def list_models(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON list.")] = False,
) -> None:
    """List the models that need no download: the built-in one and those in the shared hub cache."""
    from qanat.checkpoint import BUILT_IN, cached_models, resolve_model

    folder = resolve_model(BUILT_IN)
    rows: list[dict[str, Any]] = [
        {
            "model": BUILT_IN,
            "bytes": sum(file.stat().st_size for file in folder.iterdir() if file.is_file()),
            "folder": str(folder),
        }
    ]
    rows += [
        {
            "model": cached.name,
            "bytes": cached.nbytes,
            "folder": str(cached.path),
            "revisions": list(cached.revisions),
            "commit": cached.commit,
            "complete": cached.complete,
        }
        for cached in cached_models()
    ]
    if as_json:
        print_json(rows)
        return
    width = max(len(str(row["model"])) for row in rows)
    for row in rows:
        marks = "" if row.get("complete", True) else "  (incomplete)"
        print(f"{row['model']!s:<{width}}  {bytes_text(row['bytes']):>8}  {row['folder']}{marks}")


def remove(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The hub id to delete.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a downloaded model from the shared hub cache, every revision of it."""
    from qanat.checkpoint import remove_cached
    from qanat.checkpoint.hub_cache import removable

    removable(model)  # nobody is asked about what is not there
    if not yes:
        if stdin_is_terminal() and sys.stdin is not None and sys.stderr.isatty():
            # The cache is shared with transformers and other programs of this user.
            typer.confirm(
                f"Delete {model} from the hub cache that other programs share?", abort=True, err=True
            )
        else:
            raise InputError(
                f"nobody can be asked here; to delete {model} say {invocation.command(f'rm --yes {model}')}"
            )
    print(f"{model}: freed {bytes_text(remove_cached(model))}")
