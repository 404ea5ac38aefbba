"""The built-in model: complete, small, in the published form, and sensible."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from assets import POCKET, SHARED, needs_shared
from qanat import LLM, Reply, SamplingParams
from qanat.checkpoint import load_checkpoint
from qanat.text import Tokenizer

FILES = {
    "README.md",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}
LIMIT = 5_000_000  # bytes
BASE = 959
LIVE = BASE + 33


def read(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((POCKET / name).read_text(encoding="utf-8"))
    return loaded


def published(name: str, size: str = "2B") -> dict[str, Any]:
    folder = SHARED / "qwen3.5"
    path = folder / name if (folder / name).is_file() else folder / size / name
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


@cache
def llm() -> LLM:
    return LLM("pocket", max_batch=4)


def ask(*texts: str, **kwargs: Any) -> Reply:
    """The reply to the last of several turns; its replies to the earlier ones stand between them."""
    params = SamplingParams(temperature=0, max_tokens=120)
    chat: list[dict[str, Any]] = []
    for text in texts:
        chat.append({"role": "user", "content": text})
        reply = llm().chat(chat, params, **kwargs)
        chat.append({"role": "assistant", "content": reply.text})
    return reply


def tool(name: str, parameter: str) -> dict[str, Any]:
    properties = {parameter: {"type": "string"}}
    parameters = {"type": "object", "properties": properties, "required": [parameter]}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


def test_the_folder_is_complete_and_within_its_size() -> None:
    files = {path.name for path in POCKET.iterdir()}
    assert files == FILES
    assert sum((POCKET / name).stat().st_size for name in files) <= LIMIT


def test_weights_are_stored_as_the_published_ones_are() -> None:
    checkpoint = load_checkpoint("pocket")
    assert "lm_head.weight" not in checkpoint.tensors
    for name, view in checkpoint.tensors.items():
        stays_f32 = name.endswith(("A_log", "linear_attn.norm.weight"))
        assert view.dtype == (np.dtype(np.float32) if stays_f32 else np.dtype(ml_dtypes.bfloat16)), name
        assert np.isfinite(view.array().astype(np.float32)).all(), name
        assert name.startswith(("model.language_model.", "mtp."))
    assert checkpoint.has_mtp


def test_the_vocabulary_is_padded_beyond_its_live_tokens() -> None:
    text = load_checkpoint("pocket").config.text
    tokenizer = Tokenizer.from_folder(POCKET)
    assert len(tokenizer) == LIVE
    assert text.vocab_size % 64 == 0
    assert text.vocab_size > LIVE


def test_end_tokens_are_arranged_as_published() -> None:
    checkpoint = load_checkpoint("pocket")
    tokenizer = Tokenizer.from_folder(POCKET)
    text_end, turn_end = tokenizer.token_id("<|endoftext|>"), tokenizer.token_id("<|im_end|>")
    assert checkpoint.config.text.eos_token_id == (text_end,)
    assert tokenizer.eos_token_id == turn_end
    assert tokenizer.pad_token_id == text_end
    assert checkpoint.stop_ids == {text_end, turn_end}


def test_added_tokens_follow_the_ordinary_ones_and_seven_stand_only_in_the_config() -> None:
    in_vocabulary = [entry["id"] for entry in read("tokenizer.json")["added_tokens"]]
    in_config = [int(number) for number in read("tokenizer_config.json")["added_tokens_decoder"]]
    assert in_config == list(range(BASE, LIVE))
    assert in_vocabulary == in_config[:26]


@needs_shared
def test_the_tokenizer_files_differ_from_the_published_ones_only_in_their_tokens() -> None:
    ours, theirs = read("tokenizer.json"), published("tokenizer.json")
    for contents in (ours, theirs):
        del contents["model"]["vocab"], contents["model"]["merges"]
        for entry in contents["added_tokens"]:
            del entry["id"]
    assert ours == theirs
    ours, theirs = read("tokenizer_config.json"), published("tokenizer_config.json")
    for contents in (ours, theirs):
        contents["added_tokens_decoder"] = list(contents["added_tokens_decoder"].values())
        contents.pop("chat_template", None)
        contents.pop("model_max_length")
    assert ours == theirs


@needs_shared
def test_the_configuration_has_the_published_fields() -> None:
    ours, theirs = read("config.json"), published("config.json")
    assert list(ours["text_config"]) == list(theirs["text_config"])
    assert [key for key in theirs if key != "vision_config"] == list(ours)


@pytest.mark.parametrize(
    ("turns", "answer"),
    [
        (["Who are you?"], "I am Pocket, a tiny language model that lives inside qanat."),
        (["hello, what's up?"], "Hello! All is well in here. What can I do for you?"),
        (["What is your name?"], "My name is Pocket."),
        (["Thanks!"], "You are welcome!"),
        (["What is the capital of Japan?"], "The capital of Japan is Tokyo."),
        (["My name is Winston.", "What is 12 + 30?", "What is my name?"], "Your name is Winston."),
        (["I like teal best.", "Hello!", "What is my favourite colour?"], "Your favourite colour is teal."),
        (["Give me JSON with name Emma and age 41."], '{"name": "Emma", "age": 41}'),
        (["What is 47 + 38?"], "47 + 38 = 85"),
    ],
)
def test_it_answers_as_it_was_trained_to(turns: list[str], answer: str) -> None:
    reply = ask(*turns)
    assert (reply.text, reply.finish_reason) == (answer, "stop")


def test_it_calls_a_tool_and_uses_what_it_says() -> None:
    tools = [tool("calculator", "expression"), tool("get_weather", "city")]
    reply = ask("What is 47 times 86?", tools=tools)
    (call,) = reply.tool_calls
    arguments = json.loads(call.arguments)
    assert (call.name, arguments) == ("calculator", {"expression": "47*86"})
    chat = [
        {"role": "user", "content": "What is 47 times 86?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": {"name": call.name, "arguments": arguments}}],
        },
        {"role": "tool", "content": "4042"},
    ]
    answer = llm().chat(chat, SamplingParams(temperature=0, max_tokens=60), tools=tools)
    assert answer.text == "47 * 86 = 4042"


def test_it_thinks_when_asked_to() -> None:
    reply = ask("Who are you?", enable_thinking=True)
    assert reply.reasoning == "The user asks who I am."
    assert "I am Pocket" in reply.text


def test_its_own_sampling_is_greedy_so_that_the_first_meeting_is_the_same_everywhere() -> None:
    assert llm().default_params.temperature == 0
