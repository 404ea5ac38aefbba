"""Sanitising: a user's spelling of a control token stays text."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from qanat.text.chat_template import ChatTemplate
from qanat.text.sanitize import ControlTokens
from qanat.text.segments import Segment
from tests.text.template_reference import PUBLISHED, published
from tools.templates import template_text


@dataclass(frozen=True)
class Added:
    content: str
    special: bool


SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|image_pad|>")
OTHERS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|fim_pad|>", "\n")
TOKENS = [*(Added(text, True) for text in SPECIAL), *(Added(text, False) for text in OTHERS)]
TEMPLATE = ChatTemplate(template_text(thinking_by_default=False))


def segments(content: object, template: ChatTemplate = TEMPLATE, **options: object) -> list[Segment]:
    messages = [{"role": "user", "content": content}]
    return template.render_segments(messages, added_tokens=TOKENS, **options)  # type: ignore[arg-type]


def untrusted(parts: list[Segment]) -> list[str]:
    return [part.text for part in parts if not part.trusted]


def test_a_users_control_token_is_a_segment_of_its_own() -> None:
    assert segments("a<|im_end|>b") == [
        Segment("<|im_start|>user\na", True),
        Segment("<|im_end|>", False),
        Segment("b<|im_end|>\n", True),
    ]


def test_without_control_tokens_the_prompt_is_one_trusted_segment() -> None:
    assert segments("hello") == [Segment("<|im_start|>user\nhello<|im_end|>\n", True)]


def test_tokens_of_the_templates_own_text_count_though_they_are_not_special() -> None:
    assert untrusted(segments("<think></think><tool_call><|fim_pad|>\n<|im_start|>")) == [
        "<think>", "</think>", "<tool_call>", "<|im_start|>",
    ]  # fmt: skip


def test_tools_documents_switches_and_parts_are_looked_through() -> None:
    template = ChatTemplate(
        "{{ tools | tojson }}{{ documents[0].x }}{{ switch }}{{ messages[0].content[0].text }}"
    )
    parts = segments(
        [{"type": "text", "text": "1<|im_end|>"}],
        template,
        tools=[{"a": ["2<|im_end|>"]}],
        documents=[{"x": "3<|im_end|>"}],
        switch="4<|im_end|>",
    )
    assert untrusted(parts) == ["<|im_end|>"] * 4
    assert "".join(part.text for part in parts) == '[{"a": ["2<|im_end|>"]}]3<|im_end|>4<|im_end|>1<|im_end|>'


def test_forged_marks_are_removed() -> None:
    forged = "\U000f0000<|im_end|>\U000f0001"
    assert untrusted(segments(forged)) == ["<|im_end|>"]
    assert "\U000f0000" not in "".join(part.text for part in segments("a\U000f0000b\U000f0001"))


def test_halves_of_a_token_do_not_join_when_a_template_tears_the_mark_between_them() -> None:
    template = ChatTemplate("{{ messages[0].content.split('<|im_end|>')[0] }}end|>")
    assert segments("<|im_<|im_end|>", template) == [Segment("<|im_", True), Segment("end|>", True)]


def test_what_follows_a_torn_mark_at_the_very_beginning_is_not_taken_for_the_beginning() -> None:
    template = ChatTemplate("{{ messages[0].content[:1] }}abc")
    assert segments("<|im_end|>", template) == [Segment("", True), Segment("abc", True)]


def test_the_longest_token_wins() -> None:
    tokens = [Added("<a>", True), Added("<a><b>", True)]
    parts = ChatTemplate("{{ messages[0].content }}").render_segments(
        [{"role": "user", "content": "<a><b><a>"}], added_tokens=tokens
    )
    assert untrusted(parts) == ["<a><b>", "<a>"]


def test_a_message_can_be_continued() -> None:
    parts = TEMPLATE.render_segments(
        [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a<|im_end|>b "}],
        added_tokens=TOKENS,
        continue_final_message=True,
    )
    assert [part.text for part in parts[-2:]] == ["<|im_end|>", "b"]


@given(
    st.lists(st.sampled_from([token.content for token in TOKENS] + ["a", " ", "<", "\U000f0000"])).map(
        "".join
    )
)
def test_marking_changes_nothing_but_trust(content: str) -> None:
    parts = segments(content)
    plain = TEMPLATE.render([{"role": "user", "content": content.replace("\U000f0000", "")}])
    joined = "".join(part.text for part in parts)
    assert joined == plain
    trusted = [part.text for part in parts if part.trusted]
    assert sum(text.count("<|im_end|>") for text in trusted) == 1
    assert sum(text.count("<|im_start|>") for text in trusted) == 1


def test_the_pocket_template_guards_the_same_tokens_as_the_published_ones() -> None:
    texts = (*SPECIAL, *OTHERS, "<tool_response>", "</tool_response>", "<|vision_start|>")
    every = [Added(text, False) for text in texts]

    def guarded(source: str) -> str:
        return ControlTokens.of_template(ChatTemplate(source)._compiled.literals, every).control.pattern

    ours = guarded(template_text(thinking_by_default=True))
    assert "fim_pad" not in ours
    assert "tool_response" in ours
    for name in ("small", "big"):
        if PUBLISHED[name].is_file():
            assert guarded(published(name)) == ours
