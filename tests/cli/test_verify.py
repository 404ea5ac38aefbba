"""`qanat verify`: that it compares, and that a difference cannot pass."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from qanat.checkpoint import resolve_model
from qanat.cli.verify_checks import (
    Check,
    Judge,
    check_decoding,
    check_greedy,
    check_ids,
    check_logits,
    check_prompts,
)
from qanat.cli.verify_inputs import conversations, texts
from qanat.text import ChatTemplate, Tokenizer
from tests.cli.commands import assert_refused, invoke


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_folder(resolve_model("pocket"))


@pytest.fixture(scope="module")
def template() -> ChatTemplate:
    return ChatTemplate.from_folder(resolve_model("pocket"))


class Twin:
    """Answers like transformers' tokenizer, out of ours; `twist` changes one kind of answer."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate, twist: str = "") -> None:
        self.tokenizer, self.template, self.twist = tokenizer, template, twist

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {
            "input_ids": self.tokenizer.encode(text) + ([0] if self.twist == "ids" and "🦄" in text else [])
        }

    def decode(self, ids: list[int], *, skip_special_tokens: bool, **_: Any) -> str:
        text = self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)
        return text.strip() if self.twist == "decoding" else text

    def apply_chat_template(self, messages: Any, *, tokenize: bool, **options: Any) -> str:
        text = self.template.render(messages, **options)
        return text + ("\n" if self.twist == "prompts" and options.get("tools") else "")


@pytest.mark.parametrize("twist", ["", "ids", "decoding", "prompts"])
def test_each_text_check_sees_its_own_kind_of_difference(
    tokenizer: Tokenizer, template: ChatTemplate, twist: str
) -> None:
    twin = Twin(tokenizer, template, twist)
    checks = {
        "prompts": check_prompts(twin, template),
        "ids": check_ids(twin, tokenizer, random_texts=50),
        "decoding": check_decoding(twin, tokenizer, sequences=50),
    }
    for name, check in checks.items():
        assert check.fine == (name != twist), check
        assert check.passed + check.failed > 20


def test_the_inputs_cover_what_they_should() -> None:
    stories = list(conversations())
    assert len(stories) >= 50
    assert any("tools" in options for _, _, options in stories)
    assert len(list(texts(100))) > 100
    assert list(texts(20)) == list(texts(20))


def judged(noise: float) -> tuple[Judge, np.ndarray[Any, Any]]:
    """A judge that has read one sequence of four rows over six tokens."""
    judge = Judge(None, doubled=True)
    truth = np.random.default_rng(1).normal(size=(4, 6))
    judge.truth = [truth]
    judge.logits = [(truth + noise).astype(np.float32)]
    return judge, truth


def test_logits_pass_within_three_times_transformers_own_error() -> None:
    judge, truth = judged(1e-3)
    for off, fine in ((0.0, True), (2.9e-3, True), (3.2e-3, False), (1.0, False), (float("nan"), False)):
        assert check_logits("logits", judge, [(truth + off).astype(np.float32)]).fine is fine, off


def test_replies_may_part_only_where_rounding_decides() -> None:
    judge, _ = judged(1e-6)
    row = judge.logits[0][1]
    best, second = (int(i) for i in np.argsort(-row)[:2])
    prompt = [0, 1]
    assert check_greedy(judge, [2], [[*prompt, best, 3]], [[best, 3]]).fine
    assert not check_greedy(judge, [2], [[*prompt, second, 3]], [[best, 3]]).fine
    assert not check_greedy(judge, [2], [[*prompt, best]], [[best, 3]]).fine  # ended early
    row[second] = row[best] - np.float32(1e-6)
    tied = check_greedy(judge, [2], [[*prompt, second, 4]], [[best, 3]])
    assert tied.fine
    assert "1 parted" in tied.detail


def test_nothing_compared_is_no_success() -> None:
    assert not Check("x", 0, 0, "").fine


def test_without_transformers_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert_refused(invoke("verify", "pocket"), "torch and transformers", "pip install", "parity")


@pytest.mark.parity
def test_the_built_in_model_equals_transformers() -> None:
    result = invoke("verify", "--json", "--tokens", "24", "--prompts", "4", "pocket")
    assert result.exit_code == 0, (result.stdout, result.stderr)
    value = json.loads(result.stdout)
    assert value["passed"] is True
    assert {check["name"] for check in value["checks"]} == {
        "prompts", "token ids", "decoding", "logits, at once", "logits, in pieces", "greedy replies"
    }  # fmt: skip
    assert all(check["failed"] == 0 and check["passed"] > 0 for check in value["checks"])
    assert value["defaults_that_differ"]


@pytest.mark.parity
def test_a_changed_weight_is_found(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from qanat.model import TextModel

    real = TextModel._vector

    def wrong(self: Any, name: str) -> Any:
        value = real(self, name)
        return value + np.float32(0.01) if name.endswith("layers.0.input_layernorm.weight") else value

    monkeypatch.setattr(TextModel, "_vector", wrong)
    result = invoke("verify", "--tokens", "8", "--prompts", "2", "pocket")
    assert result.exit_code == 1
    assert "FAIL  logits" in result.stdout
    assert "DIFFERS" in result.stdout
