"""The examples of docs/api.md run as they stand."""

from __future__ import annotations

import inspect
import re

import pytest

from assets import ROOT
from qanat.engine import (
    LLM,
    EngineStats,
    Reply,
    ReplyChunk,
    RequestOptions,
    SamplingParams,
    StepRecord,
    Usage,
)

PAGE = (ROOT / "docs" / "api.md").read_text()


def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(block, "docs/api.md", "exec"), names)
    assert capsys.readouterr().out.strip()


KINDS = [LLM, EngineStats, Reply, ReplyChunk, RequestOptions, SamplingParams, StepRecord, Usage]


@pytest.mark.parametrize("kind", KINDS)
def test_every_argument_and_field_is_described(kind: type) -> None:
    for name in inspect.signature(kind).parameters:
        assert f"`{name}`" in PAGE, name
