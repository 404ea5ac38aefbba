"""Chat templates: the text transformers gives, for the recorded conversations."""

from __future__ import annotations

import gzip
import json
import sys
from typing import Any

import pytest

from assets import GOLDEN, POCKET, needs_shared
from qanat.errors import TemplateError
from qanat.text.chat_template import ChatTemplate
from tests.text.template_cases import Case, cases
from tests.text.template_reference import PUBLISHED, SPECIAL_TOKENS, published
from tools.templates import template_text

CASES = cases()


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    golden: dict[str, Any] = json.loads(gzip.decompress((GOLDEN / "template.json.gz").read_bytes()))
    return golden


def assert_equal_to_recorded(source: str, template: str, recorded: dict[str, Any]) -> None:
    ours = ChatTemplate(source, SPECIAL_TOKENS)
    wrong = []
    for case in CASES:
        kind, text = recorded["outcomes"][recorded["results"][template][case.name]]
        if not agrees(ours, case, kind, text, same_python=recorded["python"] == list(sys.version_info[:2])):
            wrong.append(case.name)
    assert wrong == []


def agrees(template: ChatTemplate, case: Case, kind: str, text: str, *, same_python: bool = True) -> bool:
    """Whether we render `text`, or refuse as the reference does: in its words if they are the template's."""
    try:
        rendered = template.render(case.messages, **case.options)
    except TemplateError as error:
        words_matter = kind == "error" or (kind == "python" and same_python)
        return str(error) == text if words_matter else kind in ("python", "refused")
    return kind == "text" and rendered == text


def test_the_goldens_were_made_from_these_conversations(recorded: dict[str, Any]) -> None:
    assert len(CASES) >= 300
    assert {case.name: case.digest for case in CASES} == recorded["digests"], "run `make goldens`"


@pytest.mark.parametrize(("template", "thinks"), [("small", False), ("big", True)])
def test_the_pocket_template_says_what_the_published_one_says(
    template: str, thinks: bool, recorded: dict[str, Any]
) -> None:
    assert_equal_to_recorded(template_text(thinks), template, recorded)


@needs_shared
@pytest.mark.parametrize("template", PUBLISHED)
def test_published_templates_render_as_in_transformers(template: str, recorded: dict[str, Any]) -> None:
    assert_equal_to_recorded(published(template), template, recorded)


def test_the_pocket_template_is_ready_in_the_model_folder() -> None:
    template = ChatTemplate.from_folder(POCKET)
    assert template.source == template_text(thinking_by_default=False)
    prompt = template.render([{"role": "user", "content": "Hello"}], add_generation_prompt=True)
    assert prompt == ("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")
