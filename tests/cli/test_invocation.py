"""Every command we print must work when it is pasted where the user stands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from qanat.cli import invocation


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """An installed `qanat` in a virtual environment that nobody activated."""
    file = tmp_path / "my project" / ".venv" / "bin" / "qanat"
    file.parent.mkdir(parents=True)
    file.write_text('#!/bin/sh\necho "ran $*"\n')
    file.chmod(0o755)
    return file


def ran(command: str, cwd: Path) -> str:
    return subprocess.run(["sh", "-c", command], cwd=cwd, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("folder", ["my project", ".", "my project/.venv/bin", "elsewhere"])
def test_a_printed_command_runs_from_the_folder_it_was_printed_in(
    script: Path, tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / folder
    here.mkdir(exist_ok=True)
    monkeypatch.chdir(here)
    for called in (str(script), *([".venv/bin/qanat"] if folder == "my project" else [])):
        monkeypatch.setattr(sys, "argv", [called])
        assert ran(invocation.command("list"), here) == "ran list\n"


def test_a_path_below_the_current_folder_is_printed_short(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script.parents[2])
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert invocation.command("list") == ".venv/bin/qanat list"


def test_a_command_on_the_path_is_printed_by_its_name(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(script.parent))
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert invocation.command("list") == "qanat list"


def test_running_as_a_module_is_printed_as_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/qanat/__main__.py"])
    printed = shlex.split(invocation.program())
    assert printed[1:] == ["-m", "qanat"]
    assert Path(printed[0]).absolute() == Path(sys.executable).absolute()


def test_the_install_command_names_the_checkout_it_runs_from(monkeypatch: pytest.MonkeyPatch) -> None:
    root = invocation.source_tree()
    assert root is not None
    assert shlex.split(invocation.install("vocab"))[1:] == ["-m", "pip", "install", "-e", f"{root}[vocab]"]
    monkeypatch.setattr(invocation, "source_tree", lambda: None)
    assert shlex.split(invocation.install("vocab"))[-1] == "qanat[vocab]"


def test_commands_in_messages_of_other_rooms_are_made_to_work(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script.parents[2])
    monkeypatch.setattr(sys, "argv", [str(script)])
    message = "not there; run `qanat pull a/b` or pip install 'qanat[vocab]'"
    expected = f"not there; run `.venv/bin/qanat pull a/b` or {invocation.install('vocab')}"
    assert invocation.pasteable(message) == expected


def test_no_room_prints_a_command_that_the_command_line_cannot_mend() -> None:
    """A command in a message is written between backquotes, where `pasteable` finds it."""
    source = Path(invocation.__file__).parents[1]
    for file in source.rglob("*.py"):
        if "cli" in file.parts:
            continue
        loose = re.search(
            r"(?<!`)qanat (pull|run|chat|list|rm|explain|verify|inspect|render)\b", file.read_text()
        )
        assert loose is None, f"{file}: {loose}"
