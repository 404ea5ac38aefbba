"""Where qanat keeps what it can make again: compiled kernels, packed weights, the built vocabulary."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_root"]


def cache_root() -> Path:
    """`$QANAT_CACHE`, else `$XDG_CACHE_HOME/qanat`, else `~/.cache/qanat`. Need not exist yet."""
    own = os.environ.get("QANAT_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "qanat"
