"""docs/serving.md names every field that is accepted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from assets import ROOT
from qanat.server.chat_request import read_chat_request
from qanat.server.completion_request import read_completion_request
from qanat.server.fields import Fields
from tests.server.bodies import CHAT_FIELDS, COMPLETION_FIELDS

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
