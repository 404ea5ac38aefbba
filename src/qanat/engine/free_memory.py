"""How much memory this process can still take."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["available_bytes"]


def available_bytes() -> int:
    """Memory that this process can still take: the system's, and what its control group leaves.

    Where the system does not say what is free, all of the installed memory; where it says nothing, no limit.
    """
    limits = [_meminfo(), _cgroup2(), _cgroup1()]
    return min((limit for limit in limits if limit is not None), default=_installed())


def _installed() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


def _meminfo() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cgroup2(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """What the tightest of this process's control groups (version 2) leaves, caches counted as free."""
    try:
        relative = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    folder = root / relative.lstrip("/")
    left = [
        _left(at / "memory.max", at / "memory.current", at / "memory.stat", "inactive_file")
        for at in (folder, *folder.parents)
        if at == root or root in at.parents
    ]
    known = [limit for limit in left if limit is not None]
    return min(known) if known else None


def _cgroup1(root: Path = Path("/sys/fs/cgroup/memory")) -> int | None:
    return _left(
        root / "memory.limit_in_bytes",
        root / "memory.usage_in_bytes",
        root / "memory.stat",
        "total_inactive_file",
    )


def _left(limit: Path, usage: Path, stat: Path, cache: str) -> int | None:
    try:
        most = int(limit.read_text())  # "max" is no number: no limit
        used = int(usage.read_text())
        counts = dict(line.split() for line in stat.read_text().splitlines())
        return max(0, most - used + int(counts.get(cache, 0)))
    except (OSError, ValueError):
        return None
