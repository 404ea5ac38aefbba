"""`qanat batch --ray`: the results of a cluster are those of one machine, whoever dies meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import command, environment
from tests.cli.test_batch import request, results, written

pytestmark = pytest.mark.ray
pytest.importorskip("ray", reason="the extra ray is not installed: make ray")

REQUESTS = [request(f"r{number}", max_tokens=20) for number in range(60)]
BROKEN = [{"custom_id": "x"}, "{not json", request("y", nope=1), request("z", n=3, seed=4)]


def batch(source: Path, out: Path, *more: str) -> Any:
    return subprocess.run(
        command("batch", str(source), str(out), "--backend", "reference", *more),
        capture_output=True, text=True, env=environment(), timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("batch") / "in.jsonl", *REQUESTS, *BROKEN)


@pytest.fixture(scope="module")
def expected(source: Path) -> dict[str, str]:
    out = source.with_name("local.jsonl")
    assert batch(source, out).returncode == 1  # three lines are broken
    return results(out.read_text())


def test_a_cluster_gives_the_results_of_one_machine(source: Path, expected: Any, tmp_path: Path) -> None:
    done = batch(source, tmp_path / "out.jsonl", "--ray", "local", "--replicas", "2")
    assert done.returncode == 1, done.stderr
    assert results((tmp_path / "out.jsonl").read_text()) == expected
    assert "Traceback" not in done.stderr
    assert [line for line in done.stderr.splitlines() if "3 of 64 requests failed" in line]


def test_a_run_goes_on_where_another_was_here_or_there(source: Path, expected: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    some = source.with_name("local.jsonl").read_text().splitlines(keepends=True)[:40]
    out.write_text("".join(some))
    done = batch(source, out, "--ray", "local", "--replicas", "2")
    assert "has 40 of 64 results already" in done.stderr
    assert results(out.read_text()) == expected
    assert out.read_text().startswith("".join(some))


def test_a_worker_that_is_killed_costs_no_result(tmp_path: Path) -> None:
    source = written(
        tmp_path / "in.jsonl", *(request(f"r{n}", max_tokens=150, ignore_eos=True) for n in range(48))
    )
    out, local = tmp_path / "out.jsonl", tmp_path / "local.jsonl"
    assert batch(source, local, "--max-batch", "2").returncode == 0
    with subprocess.Popen(
        command("batch", str(source), str(out), "--backend", "reference", "--max-batch", "2",
                "--ray", "local", "--replicas", "2"),
        stderr=subprocess.PIPE, text=True, env=environment(),
    ) as process:  # fmt: skip
        end = time.monotonic() + 90
        while not out.exists() or not out.read_text():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        victim = workers(process.pid)[0]
        os.kill(victim, signal.SIGKILL)
        assert process.wait(120) == 0, process.stderr and process.stderr.read()
    assert results(out.read_text()) == results(local.read_text())


def workers(ancestor: int) -> list[int]:
    """Actors of Ray's that hold a model and descend from a process."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if (
                b"ray::" in (folder / "cmdline").read_bytes()
                and b"_Worker" in (folder / "cmdline").read_bytes()
            ):
                found += [int(folder.name)] if descends(folder, ancestor) else []
        except (OSError, ValueError):
            continue
    return found


def descends(folder: Path, ancestor: int) -> bool:
    while folder.name not in ("0", "1"):
        if folder.name == str(ancestor):
            return True
        folder = folder.with_name((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return False


def test_what_cannot_be_done_is_told_in_a_sentence(source: Path, tmp_path: Path) -> None:
    cases = [
        (["--ray", "127.0.0.1:1", "--replicas", "1"], "no cluster of Ray's at 127.0.0.1:1"),
        (["--ray", "nowhere"], "HOST:PORT"),
        (["--ray", "auto"], "no cluster of Ray's at auto"),
        (["--ray", "local", "--replicas", "999"], "too few processors"),
        (["--ray", "local", "--replicas", "1", "--memory", "1MB"], "1.0 MB"),
    ]
    for more, words in cases:
        done = batch(source, tmp_path / "out.jsonl", *more)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert done.returncode == 2, done.stderr
        assert len(errors) == 1
        assert words in errors[0]
