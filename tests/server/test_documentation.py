"""docs/serving.md names every field that is accepted, every option of the server, and every path."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer.main

from assets import ROOT
from qanat.cli.app import app
from qanat.server.chat_request import read_chat_request
from qanat.server.completion_request import read_completion_request
from qanat.server.fields import Fields
from qanat.server.http.app import create_routes
from qanat.server.http.service import Service
from qanat.server.http.settings import ServerSettings
from tests.server.bodies import CHAT_FIELDS, COMPLETION_FIELDS
from tests.server.http.fakes import FakeEngine

TEXT = (ROOT / "docs" / "serving.md").read_text()


@pytest.mark.parametrize(
    ("read", "fields"),
    [(read_chat_request, CHAT_FIELDS), (read_completion_request, COMPLETION_FIELDS)],
    ids=["chat", "completion"],
)
def test_every_field_is_documented_and_in_the_bodies_of_the_tests(
    read: Any, fields: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: set[str] = set()
    take = Fields.take

    def noted(self: Fields, name: str, reader: Any) -> Any:
        if not self.path:
            taken.add(name)
        return take(self, name, reader)

    monkeypatch.setattr(Fields, "take", noted)
    read(fields)
    assert taken == set(fields) - {"suffix"}  # which is only refused
    for name in fields:
        assert re.search(rf"`{name}[`.]", TEXT), name


def test_every_option_of_the_server_is_documented() -> None:
    group = typer.main.get_command(app)
    serve, run = (group.commands[name] for name in ("serve", "run"))  # type: ignore[attr-defined]
    shared = {option for parameter in run.params for option in parameter.opts}
    own = {option for parameter in serve.params for option in parameter.opts} - shared
    assert own == set(
        re.findall(r"`(--[a-z-]+)`(?=[^|\n]* \|)", TEXT.split("## Options")[1].split("## Safety")[0])
    )


def test_every_path_of_the_server_is_documented() -> None:
    documented = {
        (method, path.replace("NAME", "{name:path}"))
        for method, path in re.findall(r"`(GET|POST) (/[\w/.-]*)`", TEXT.split("## Options")[0])
    }
    routes = create_routes(Service(FakeEngine(), ServerSettings()))
    assert documented == {(method, route.path) for route in routes for method in route.methods - {"HEAD"}}
