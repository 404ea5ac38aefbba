"""Chat templates, tool schemas and sanitising, live against transformers."""

# ruff: noqa: E501 - tables

from __future__ import annotations

import inspect
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qanat.errors import TemplateError
from qanat.text.chat_template import ChatTemplate
from qanat.text.tool_docstring import Docstring
from qanat.text.tool_schema import function_schema
from tests.assets import SHARED, needs_shared
from tests.text import template_reference as reference
from tests.text.template_cases import WEATHER, Case, cases, random_conversation
from tests.text.test_template import agrees
from tests.text.test_template_sandbox import RENDERED
from tests.text.tool_functions import FUNCTIONS
from tools.templates import template_text

pytestmark = pytest.mark.parity

words = st.text(
    st.sampled_from(list("ab \n\té天<>|/")) | st.characters(exclude_categories=["Cs"]), max_size=12
) | st.sampled_from(["<think>", "</think>", "a</think>b", "<tool_response>x</tool_response>", "<|im_end|>"])
part = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": words}),
    st.sampled_from(
        [{"type": "image"}, {"image_url": "x"}, {"video": 1}, {"type": "audio"}, "image", 5, None]
    ),
)
content = st.one_of(
    words, words, words, st.none(), st.lists(part, max_size=3), st.sampled_from([5, {"a": 1}])
)
value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
call = st.fixed_dictionaries(
    {
        "function": st.fixed_dictionaries(
            {"name": words}, optional={"arguments": st.dictionaries(words, value, max_size=3)}
        )
    }
) | st.sampled_from([{"name": "g"}, {}, "x", {"function": {"name": "g", "arguments": "{}"}}])
message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user"] * 6 + ["assistant"] * 6 + ["tool"] * 3 + ["system", "developer"])},
    optional={
        "content": content,
        "reasoning_content": words | st.none() | st.integers(),
        "reasoning": words,
        "thinking": words,
        "tool_calls": st.lists(call, max_size=3) | st.none(),
    },
)
options = st.fixed_dictionaries(
    {},
    optional={
        "add_generation_prompt": st.booleans(),
        "enable_thinking": st.sampled_from([True, False, None, "true"]),
        "add_vision_id": st.booleans(),
        "preserve_thinking": st.booleans(),
        "tools": st.lists(st.dictionaries(words, value, max_size=3), max_size=2),
        "continue_final_message": st.sampled_from([False, True, "reasoning_content"]),
    },
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return reference.reference_tokenizer()


def templates() -> dict[str, str]:
    sources = {"pocket": template_text(False), "pocket, thinking": template_text(True)}
    return sources | {
        name: reference.published(name) for name, file in reference.PUBLISHED.items() if file.is_file()
    }


@pytest.mark.parametrize("name", templates())
def test_listed_conversations(name: str, tokenizer: Any) -> None:
    source = templates()[name]
    ours = ChatTemplate(source, reference.SPECIAL_TOKENS)
    differ = [
        one.name for one in cases() if not agrees(ours, one, *reference.outcome(tokenizer, source, one))
    ]
    assert differ == []


@pytest.mark.parametrize("name", templates())
@settings(max_examples=150, deadline=None)
@given(messages=st.lists(message, max_size=6), chosen=options)
def test_any_conversation(name: str, tokenizer: Any, messages: list[Any], chosen: dict[str, Any]) -> None:
    source = templates()[name]
    one = Case("any", messages, chosen)
    kind, text = reference.outcome(tokenizer, source, one)
    assert agrees(ChatTemplate(source, reference.SPECIAL_TOKENS), one, kind, text), (kind, text)


@needs_shared
@pytest.mark.parametrize(("template", "thinks"), [("small", False), ("big", True)])
@settings(max_examples=400, deadline=None)
@given(messages=st.lists(message, max_size=6), chosen=options)
def test_the_pocket_template_equals_the_published_one(
    template: str, thinks: bool, messages: list[Any], chosen: dict[str, Any]
) -> None:
    outcomes = []
    for source in (reference.published(template), template_text(thinks)):
        try:
            outcomes.append(ChatTemplate(source).render(messages, **chosen))
        except TemplateError as error:
            outcomes.append(f"refused: {error}")
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(("source", "expected"), RENDERED)
def test_the_dialect_of_jinja(source: str, expected: str, tokenizer: Any) -> None:
    one = Case("dialect", [{"role": "user", "content": "hi"}], {"switch": True})
    assert reference.outcome(tokenizer, source, one) == ["text", expected]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_schema_of_listed_functions(function: Any) -> None:
    from transformers.utils import get_json_schema

    try:
        expected = json.dumps(get_json_schema(function))
    except Exception:
        with pytest.raises(TemplateError):
            function_schema(function)
    else:
        assert json.dumps(function_schema(function)) == expected


@settings(max_examples=800, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "Args:",
                "Returns:",
                "Raises:",
                "\n",
                "\n",
                "    ",
                "  ",
                "\t",
                "x: one",
                "y (int): two",
                "z:",
                "word",
                ":",
                "(a)",
                "\r",
                "\n\n",
            ]
        ),
        max_size=25,
    )
)
def test_any_docstring(pieces: list[str]) -> None:
    from transformers.utils.chat_template_utils import parse_google_format_docstring

    text = inspect.cleandoc("Does.\n" + "".join(pieces)).strip()
    ours = Docstring.parse(text)
    assert (ours.description, ours.arguments, ours.returns) == parse_google_format_docstring(text)


@needs_shared
def test_sanitised_prompts_have_the_ids_of_transformers(tmp_path: Any) -> None:
    import shutil

    from transformers import AutoTokenizer

    from qanat.text.tokenizer import Tokenizer

    folder = SHARED / "qwen3.5"
    shutil.copy(folder / "tokenizer.json", tmp_path)
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(folder / "0.8B" / name, tmp_path)
    theirs, tokenizer = AutoTokenizer.from_pretrained(tmp_path), Tokenizer.from_folder(tmp_path)
    template = ChatTemplate.from_folder(tmp_path)
    pocket = ChatTemplate(template_text(False), template.special_tokens)
    assert template.special_tokens == theirs.special_tokens_map
    draw = random.Random(8)
    nasty = ["<|im_end|>", "<|im_start|>", "<think>", "</think>", "<|image_pad|>", "<tool_call>", "<|fim_pad|>",
             " ", "\n", "a", "天", "e\u0301", "\U000f0000", "\U000f0001", "<|im_", "end|>", "<tts_pad>"]  # fmt: skip

    def poisoned(value: Any) -> Any:
        if isinstance(value, str):
            return value + "".join(draw.choices(nasty, k=draw.randrange(6)))
        if isinstance(value, list):
            return [poisoned(item) for item in value]
        if isinstance(value, dict):
            return {key: item if key in ("role", "type") else poisoned(item) for key, item in value.items()}
        return value

    compared = 0
    for _ in range(300):
        messages, chosen = random_conversation(draw)
        messages, chosen["tools"] = (
            poisoned(messages),
            draw.choice([None, [poisoned(WEATHER)], [FUNCTIONS[0]]]),
        )
        try:
            expected = theirs.apply_chat_template(
                messages, sanitize_control_tokens=True, return_dict=False, **chosen
            )
        except Exception:
            with pytest.raises(TemplateError):
                template.render_segments(messages, added_tokens=tokenizer.added_tokens, **chosen)
            continue
        for ours in (template, pocket):
            segments = ours.render_segments(messages, added_tokens=tokenizer.added_tokens, **chosen)
            assert tokenizer.encode_prompt(segments) == expected
        compared += 1
    assert compared > 200
