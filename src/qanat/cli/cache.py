"""`qanat cache list`, `check` and `clear`: what qanat keeps on this disk because it can make it again."""

from __future__ import annotations

import shutil
import time
from typing import Annotated

import typer

from qanat.cli.output import bytes_text, note, print_json
from qanat.cli.terminal import Status

__all__ = ["cache"]

DAMAGED = 1
"""Exit code when a pack was not what it should be."""

cache = typer.Typer(
    help="What is kept for later starts: packed weights, compiled kernels, the built vocabulary.",
    no_args_is_help=True,
)


@cache.command("list")
def list_kept(as_json: Annotated[bool, typer.Option("--json", help="One JSON list.")] = False) -> None:
    """List what is kept, kind by kind, the most recently used first."""
    from qanat.backends.cpu.pack_cache import cached_packs, limit_bytes
    from qanat.paths import cache_root, kept

    limit, packs = limit_bytes(), {pack.path: pack for pack in cached_packs()}
    things = [(thing, packs.get(thing.path)) for thing in kept() if thing.nbytes]
    if as_json:
        print_json(
            [
                {
                    "kind": thing.kind,
                    "model": pack and pack.model,  # null: another kind, or a pack that was never finished
                    "weights": pack and pack.weights,
                    "bytes": thing.nbytes,
                    "folder": str(thing.path),
                    "last_used": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(thing.last_used)),
                }
                for thing, pack in things
            ]
        )
        return
    names = [f"{thing.kind} {pack.model} {pack.weights}" if pack else thing.kind for thing, pack in things]
    width = max(map(len, names), default=0)
    for name, (thing, _) in zip(names, things, strict=True):
        print(f"{name:<{width}}  {bytes_text(thing.nbytes):>8}  {thing.path}")
    packed = sum(pack.nbytes for pack in packs.values())
    note(
        f"{cache_root()}: packed weights take {bytes_text(packed)} of at most {bytes_text(limit)} "
        "(QANAT_CACHE_LIMIT, in bytes)"
    )


@cache.command("check")
def check() -> None:
    """Read all packed weights and delete those that are damaged; the model's next start packs them again."""
    from qanat.backends.cpu.pack_cache import cached_packs, is_sound
    from qanat.paths import kept

    status, damaged, packs = Status(worth_a_line=False), 0, {pack.path: pack for pack in cached_packs()}
    for pack in [packs[thing.path] for thing in kept() if thing.path in packs]:
        status.show(f"reading {pack.model} {pack.weights}, {bytes_text(pack.nbytes)}")
        sound = is_sound(pack.path)
        status.clear()
        if not sound:
            damaged += 1
            shutil.rmtree(pack.path)
        print(f"{'sound' if sound else 'damaged, deleted'}: {pack.model} {pack.weights}  {pack.path}")
    note(f"{len(packs)} packs read, {damaged} of them damaged")
    if damaged:
        raise typer.Exit(DAMAGED)


@cache.command("clear")
def clear() -> None:
    """Delete all that is kept; later starts make it again. Running processes go on."""
    from qanat.paths import clear_cache

    print(f"freed {bytes_text(clear_cache())}")
