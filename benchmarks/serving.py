"""`qanat serve` under many streaming clients, a fifth of whom leave: rates, and how long who waits.

    .venv/bin/python benchmarks/serving.py [--seconds 60] [--clients 64] [OPTIONS OF qanat serve]

first     from a request to its first event        between   from an event to the next
health    how long `/health` takes meanwhile
control   how long a server takes that does nothing, asked in the same seconds by the same program: what this
          machine takes for itself. What health takes beyond it is the server's
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests")]

from tests.server.http.load import health_watched, load, nothing_served, percentile  # noqa: E402


@contextlib.contextmanager
def running(*command: str) -> Iterator[int]:
    """The port of a program that says `ready: ADDRESS` on one of its outputs."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                if line.startswith("ready: "):
                    yield int(re.findall(r"http://[^\s/]+:(\d+)", line)[0])
                    return
                said += line
            raise SystemExit(f"it did not start: {said}")
        finally:
            process.terminate()


def main() -> None:
    """Measure, and print figures and then the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=64)
    given, options = parser.parse_known_args()
    python = (sys.executable, "-m", "qanat", "serve", "--port", "0", *options)
    with running(*python) as port, nothing_served() as nothing:
        asyncio.run(load(port, clients=8, seconds=2))
        with (
            health_watched(port, given.seconds) as health,
            health_watched(nothing, given.seconds) as control,
        ):
            found = asyncio.run(load(port, clients=given.clients, seconds=given.seconds, seed=2))
    figures: dict[str, object] = {"load_average": os.getloadavg()[0], "cores": os.cpu_count()}
    figures |= {**found.counts, "errors": len(found.errors), "tokens_per_second": found.tokens / found.took}
    waits = {"first": found.first, "between": found.between, "health": health, "control": control}
    for name, times in waits.items():
        figures[name] = {f"p{share}": percentile(times, share / 100) * 1000 for share in (50, 90, 99)}
    print(
        f"{given.clients} clients for {given.seconds:g} s: {dict(found.counts)}, {len(found.errors)} errors"
    )
    print(
        f"{figures['tokens_per_second']:.0f} tokens/s in whole answers; load average {os.getloadavg()[0]:.1f}"
    )
    for name in waits:
        print(f"{name:8} ms  " + "  ".join(f"{p} {v:8.1f}" for p, v in figures[name].items()))  # type: ignore[attr-defined]
    for error in found.errors[:5]:
        print("error:", error)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
