"""`qanat batch`: what is written where, and that a run that was killed goes on without loss or repetition."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qanat.cli.batch_output import ResultFile
from qanat.cli.input import InputError
from tests.cli.commands import assert_refused, command, environment, invoke, take_interrupts

FAST = ("--backend", "reference")
PREFIX = "batch_req_"


def request(custom_id: str, **body: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"Tell me about {custom_id}"}]
    body = {"messages": messages, "max_tokens": 12, "temperature": 1.0, **body}
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}


def written(path: Path, *requests: Any) -> Path:
    lines = (r if isinstance(r, str) else json.dumps(r) for r in requests)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def results(text: str) -> dict[str, str]:
    """Id -> result, without the time; every line is whole and none is there twice."""
    assert text.endswith("\n")
    found = {}
    for line in text.splitlines():
        result = json.loads(line)
        assert result["id"] not in found
        found[result["id"]] = re.sub(r'"(created|cached_tokens)": \d+', "", line)
    return found


def run(source: Path, out: Path, *more: str) -> Any:
    return invoke("batch", str(source), str(out), *FAST, *more)


def test_a_cluster_is_named_before_its_replicas_and_needs_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path / "in.jsonl", request("a"))
    assert_refused(run(source, tmp_path / "out.jsonl", "--replicas", "2"), "--ray")
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    assert_refused(run(source, tmp_path / "out.jsonl", "--ray", "local"), "needs ray", "[ray]")
    assert not (tmp_path / "out.jsonl").exists()


def test_results_go_to_the_file_and_a_summary_to_stderr(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", request("a"), request("b"))
    result = run(source, tmp_path / "out.jsonl")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert re.fullmatch(r"2 results in [\d.]+ s; \d+ reply tokens at [\d.]+ tok/s", line)
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {r["custom_id"] for r in found} == {"a", "b"}
    assert all(r["response"]["body"]["model"] == "pocket" for r in found)


def test_a_pipe_gives_and_takes_the_same(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", request("a"), request("b"))
    run(source, tmp_path / "out.jsonl")
    piped = invoke("batch", "-", "-", *FAST, stdin=source.read_bytes())
    assert piped.exit_code == 0
    assert results(piped.stdout) == results((tmp_path / "out.jsonl").read_text())


def test_failed_lines_are_told_by_the_exit_code_of_every_run(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", request("a"), "nonsense", request("b", mood=1))
    out = tmp_path / "out.jsonl"
    for _ in range(2):
        result = run(source, out)
        assert result.exit_code == 1
        assert "2 of 3 requests failed" in result.stderr
        assert len(results(out.read_text())) == 3
    assert "3 of 3 results already" in result.stderr


def test_duplicates_are_refused_before_anything_is_computed(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", request("a"), request("b"), request("a", n=2))
    result = run(source, tmp_path / "out.jsonl", "-m", "no-such-model")
    assert_refused(result, "in.jsonl", "lines 1 and 3", "'a'")
    assert not (tmp_path / "out.jsonl").exists()


def test_what_cannot_be_read_or_written_is_refused(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", request("a"))
    assert_refused(run(tmp_path / "none.jsonl", tmp_path / "out"), "none.jsonl", "No such file")
    assert_refused(run(tmp_path, tmp_path / "out"), "directory")
    assert_refused(run(written(tmp_path / "empty", "", " "), tmp_path / "out"), "empty", "no requests")
    assert_refused(run(source, tmp_path), "no regular file")
    assert_refused(run(source, tmp_path / "no" / "out"), "No such file")
    assert_refused(invoke("batch", str(source), str(tmp_path / "out"), "--max-batch", "0"), "--max-batch")


def test_more_requests_may_be_added_to_the_input(tmp_path: Path) -> None:
    source, out = written(tmp_path / "in.jsonl", request("a")), tmp_path / "out.jsonl"
    run(source, out)
    written(source, request("b"), request("a"))
    assert run(source, out).exit_code == 0
    assert [json.loads(line)["custom_id"] for line in out.read_text().splitlines()] == ["a", "b"]


@pytest.mark.parametrize(
    "change",
    [
        lambda s: (written(s, request("a", n=2)), ())[1],
        lambda s: (written(s, request("x")), ())[1],
        lambda s: ("--seed", "1"),
        lambda s: ("--max-model-len", "64"),
        lambda s: ("--weights", "bf16"),
        lambda s: ("--memory", "8MB"),
    ],
    ids=["body", "custom_id", "seed", "context", "weights", "what memory decides"],
)
def test_results_of_other_requests_or_options_are_not_mixed(
    change: Callable[[Path], tuple[str, ...]], tmp_path: Path
) -> None:
    source, out = written(tmp_path / "in.jsonl", request("a")), tmp_path / "out.jsonl"
    run(source, out)
    before = out.read_bytes()
    assert_refused(run(source, out, *change(source)), "line 1", "another request, model or options")
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [b"notes", b"notes\n", b'{"id": "other"}\n', b"[]\n", b"5", b'{"custom_id": "a"}\n', b"\xff\n", b"{\n"],
)
def test_a_file_of_something_else_is_not_touched(content: bytes, tmp_path: Path) -> None:
    source, out = written(tmp_path / "in.jsonl", request("a")), tmp_path / "out.jsonl"
    out.write_bytes(content)
    assert_refused(run(source, out), "line 1", "no result")
    assert_refused(run(source, source), "line 1", "no result")
    assert out.read_bytes() == content


def result_line(number: int, status: int = 200) -> dict[str, Any]:
    response = {"status_code": status, "request_id": "r", "body": {"text": "caf\u00e9 \u2028 \U0001f642"}}
    return {"id": f"{PREFIX}{number}", "custom_id": str(number), "response": response, "error": None}


def test_a_file_cut_at_any_byte_goes_on_with_its_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # a thousand of them take seconds
    out, expected = tmp_path / "out.jsonl", {f"{PREFIX}{n}" for n in range(3)}

    def opened() -> ResultFile:
        return ResultFile(out, expected=expected, prefix=PREFIX)

    file = opened()
    for number in range(3):
        file.append(result_line(number, 200 if number else 400))
    file.close()
    data = out.read_bytes()
    for cut in range(len(data) + 1):
        for tail in (b"", b"\0" * 7):  # what a power failure may leave
            out.write_bytes(data[:cut] + (tail if data[:cut][-1:] in (b"", b"\n") else b""))
            file = opened()
            whole = data[:cut].count(b"\n")
            assert (len(file.done), file.failed) == (whole, min(whole, 1))
            for number in range(whole, 3):
                file.append(result_line(number, 200 if number else 400))
            file.close()
            assert out.read_bytes() == data


def test_a_repeated_result_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text(json.dumps(result_line(1)) + "\n" + json.dumps(result_line(1)) + "\n")
    with pytest.raises(InputError, match="line 2 repeats"):
        ResultFile(out, expected={f"{PREFIX}1"}, prefix=PREFIX)


def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    first = ResultFile(tmp_path / "out.jsonl", expected=(), prefix=PREFIX)
    with pytest.raises(InputError, match="another run is writing"):
        ResultFile(tmp_path / "out.jsonl", expected=(), prefix=PREFIX)
    first.close()
    ResultFile(tmp_path / "out.jsonl", expected=(), prefix=PREFIX).close()


MANY = [request(f"r{n}", max_tokens=5 + n % 30, ignore_eos=True, n=1 + n % 2) for n in range(40)]


def stopped(source: Path, out: Path, number: int, grown: int) -> tuple[int, str]:
    """Start a run, send it a signal once the file has grown by so many bytes; its exit code and words."""
    size = out.stat().st_size if out.exists() else 0
    process = subprocess.Popen(
        command("batch", str(source), str(out), *FAST),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=take_interrupts,
    )
    deadline = time.monotonic() + 60
    while process.poll() is None and (not out.exists() or out.stat().st_size < size + grown):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    return process.returncode, said.decode()


def test_a_run_killed_at_any_moment_and_begun_again_gives_what_an_undisturbed_one_gives(
    tmp_path: Path,
) -> None:
    source = written(tmp_path / "in.jsonl", *MANY, "nonsense")
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert run(source, whole).exit_code == 1
    expected = results(whole.read_text())
    assert len(expected) == 41
    chance = random.Random(1)
    codes = [
        stopped(source, out, signal.SIGKILL, chance.randrange(1, whole.stat().st_size // 6))[0]
        for _ in range(4)
    ]
    assert -signal.SIGKILL in codes
    with out.open("r+b") as file:  # and one more, in the middle of a write
        file.truncate(out.stat().st_size - chance.randrange(1, 60))
    run(source, out, "--max-batch", "3")
    assert results(out.read_text()) == expected


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", *MANY)
    out = tmp_path / "out.jsonl"
    code, said = stopped(source, out, signal.SIGINT, 1)
    before = results(out.read_text())
    assert code == 130
    assert 1 <= len(before) < len(MANY)
    assert f"stopped with {len(before)} of {len(MANY)} results; the same command goes on from there" in said
    assert "Traceback" not in said
    assert run(source, out).exit_code == 0
    after = results(out.read_text())
    assert len(after) == len(MANY)
    assert before.items() <= after.items()
