"""The examples of docs/api.md run as they stand."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from assets import ROOT
from qanat.engine import Reply, ReplyChunk, SamplingParams

PAGE = (ROOT / "docs" / "api.md").read_text()


def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(block, "docs/api.md", "exec"), names)
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("kind", [Reply, ReplyChunk, SamplingParams])
def test_every_field_is_described(kind: type) -> None:
    for f in fields(kind):
        assert f"`{f.name}`" in PAGE, f.name
