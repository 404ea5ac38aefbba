"""How many threads compute."""

from __future__ import annotations

import os
import re
from pathlib import Path

from qanat.errors import RequestError

__all__ = ["choose_threads", "physical_cores"]

MOST = 1024
TOPOLOGY = Path("/sys/devices/system/cpu")


def physical_cores(topology: Path = TOPOLOGY) -> int:
    """Cores this process may use, hyper-threads counted once; at least 1.

    Two threads on one core share its vector units and its path to memory: more do not help.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = set()
    for cpu in allowed:
        try:
            siblings = (topology / f"cpu{cpu}/topology/thread_siblings_list").read_text()
            cores.add(int(re.split(r"[,-]", siblings.strip())[0]))
        except (OSError, ValueError):
            cores.add(cpu)
    return max(1, min(len(cores), _quota() or len(cores)))


def _quota(file: Path = Path("/sys/fs/cgroup/cpu.max")) -> int | None:
    """Whole cores that the control group grants, rounded up; None without a limit."""
    try:
        quota, period = file.read_text().split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError):
        return None


def choose_threads(threads: int | None) -> int:
    """A checked thread count; None: the physical cores.

    Raises:
        RequestError: not a whole number from 1 to 1024.
    """
    if threads is None:
        return physical_cores()
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST:
        raise RequestError(f"threads must be a whole number from 1 to {MOST}, not {threads!r}")
    return threads
