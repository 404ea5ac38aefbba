"""`qanat cache list` and `clear`: what qanat keeps on this disk because it can make it again."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from qanat.cli.output import bytes_text, note, print_json

__all__ = ["cache"]

cache = typer.Typer(
    help="Packed weights that later starts map instead of packing again.", no_args_is_help=True
)


@cache.command("list")
def list_packs(as_json: Annotated[bool, typer.Option("--json", help="One JSON list.")] = False) -> None:
    """List the packed weights, the most recently used first."""
    from qanat.backends.cpu.pack_cache import cached_packs, limit_bytes

    packs = cached_packs()
    if as_json:
        print_json(
            [
                {
                    "model": pack.model,
                    "weights": pack.weights,
                    "bytes": pack.nbytes,
                    "folder": str(pack.path),
                    "last_used": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(pack.last_used)),
                }
                for pack in packs
            ]
        )
        return
    width = max((len(pack.model) for pack in packs), default=0)
    for pack in packs:
        print(f"{pack.model:<{width}}  {pack.weights}  {bytes_text(pack.nbytes):>8}  {pack.path}")
    total = sum(pack.nbytes for pack in packs)
    note(f"{bytes_text(total)} of at most {bytes_text(limit_bytes())} (QANAT_CACHE_LIMIT, in bytes)")


@cache.command("clear")
def clear() -> None:
    """Delete all packed weights; the next start of a model packs them again."""
    from qanat.backends.cpu.pack_cache import clear_packs

    print(f"freed {bytes_text(clear_packs())}")
