"""`make stages`: stage by stage, how many checks passed and failed; exit code 1 if any failed."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests")]

from tests.stages.checks import STAGES, Comparison  # noqa: E402

SHOWN = 5
"""Failures of a stage that are told in full."""


def tally(name: str) -> tuple[int, list[Comparison]]:
    """(passed, failures) of one stage; what stops a stage half-way is a failure too."""
    passed, failures = 0, []
    try:
        for comparison in STAGES[name]():
            if comparison.equal:
                passed += 1
            else:
                failures.append(comparison)
    except Exception as error:
        failures.append(Comparison("the stage itself", False, f"{type(error).__name__}: {error}"))
    return passed, failures


def main() -> int:
    """Run and print all stages."""
    red = False
    for name in STAGES:
        passed, failures = tally(name)
        red = red or bool(failures) or not passed
        print(f"{name} test results:\n  Passed: {passed}\n  Failed: {len(failures)}", flush=True)
        for failure in failures[:SHOWN]:
            print(f"    {failure.case[:60]!a}: {failure.difference}", file=sys.stderr)
    return int(red)


if __name__ == "__main__":
    sys.exit(main())
