"""docs/cli.md names every command and option, and nothing that does not exist."""

from __future__ import annotations

import re

import pytest
import typer.main

from assets import ROOT
from qanat.cli.app import app
from qanat.cli.chat_commands import COMMANDS
from tests.cli.commands import invoke

TEXT = (ROOT / "docs" / "cli.md").read_text()


def command_options() -> dict[str, set[str]]:
    """Command -> its long options."""
    group = typer.main.get_command(app)
    return {
        name: {
            option
            for parameter in command.params
            for option in (*parameter.opts, *parameter.secondary_opts)
            if option.startswith("--")
        }
        for name, command in group.commands.items()  # type: ignore[attr-defined]
    }


def test_every_command_option_and_chat_command_is_documented() -> None:
    for command, options in command_options().items():
        assert re.search(rf"(qanat {command}\b|`{command}`)", TEXT), command
        for option in options:
            assert re.search(rf"{option}(?![\w-])", TEXT), f"{command} {option}"
    for name in COMMANDS:
        assert f"/{name}" in TEXT


def test_nothing_is_documented_that_does_not_exist() -> None:
    known = {option for options in command_options().values() for option in options}
    known |= {"--help", "--version"}
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", TEXT)) <= known


@pytest.mark.parametrize("command", sorted(command_options()))
def test_every_command_explains_itself(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    for option in command_options()[command]:
        parameters = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
        [parameter] = [p for p in parameters if option in (*p.opts, *p.secondary_opts)]
        assert parameter.help, f"{command} {option} has no help"
