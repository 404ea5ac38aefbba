"""Replies: thoughts and tool calls read out of what a model writes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from qanat.text.chat_template import ChatTemplate
from qanat.text.dialects import ReplyDelta, ReplyParser, starts_in_thought
from tools.templates import template_text

PROPERTIES = {
    "s": {"type": "string"},
    "i": {"type": "integer"},
    "n": {"type": "number"},
    "b": {"type": "boolean"},
    "a": {"type": "array"},
    "o": {"type": "object"},
    "maybe": {"type": ["string", "null"]},
    "free": {},
}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": PROPERTIES}},
}


def call(arguments: dict[str, str], name: str = "f") -> str:
    """A call as the model writes it; values are bare text."""
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def parse(
    *deltas: str,
    in_thought: bool = False,
    tools: Any = (TOOL,),
    finish_reason: str = "stop",
    live: bool = False,
) -> tuple[ReplyParser, list[ReplyDelta]]:
    ids = map("call_{}".format, itertools.count())
    parser = ReplyParser(in_thought=in_thought, tools=tools, live_arguments=live, new_call_id=ids.__next__)
    out = [delta for text in deltas for delta in parser.feed(text)]
    return parser, out + parser.finish(finish_reason)


def arguments(*deltas: str, **options: Any) -> Any:
    parser, _ = parse(*deltas, **options)
    assert parser.content is None
    (one,) = parser.tool_calls
    return json.loads(one.arguments)


class TestReasoning:
    def test_a_thought_and_its_answer(self) -> None:
        parser, _ = parse("r\n</think>\n\nans", in_thought=True)
        assert (parser.reasoning, parser.content) == ("r", "ans")

    def test_all_is_content_when_the_prompt_closed_the_thought(self) -> None:
        parser, _ = parse("r\n</think>\n\nans", in_thought=False)
        assert (parser.reasoning, parser.content) == (None, "r\n</think>\n\nans")

    def test_cut_off_inside_the_thought(self) -> None:
        parser, _ = parse("thinking about </thi", in_thought=True, finish_reason="length")
        assert (parser.reasoning, parser.content) == ("thinking about </thi", None)
        assert parser.finish_reason == "length"

    def test_one_delta_may_hold_both(self) -> None:
        parser, deltas = parse("x</think>y", in_thought=True)
        assert (parser.reasoning, parser.content) == ("x", "y")
        assert [(delta.kind, delta.text) for delta in deltas] == [("reasoning", "x"), ("content", "y")]

    def test_blank_lines_before_a_call_are_not_content(self) -> None:
        parser, deltas = parse("r\n</think>\n\n" + call({}), in_thought=True)
        assert (parser.reasoning, parser.content) == ("r", None)
        assert "content" not in {delta.kind for delta in deltas}
        assert len(parser.tool_calls) == 1

    def test_white_space_around_the_thought_is_dropped_and_inside_kept(self) -> None:
        parser, _ = parse("\n r\n\n s \n\n</think>\n\n  code", in_thought=True)
        assert (parser.reasoning, parser.content) == ("r\n\n s", "  code")

    def test_an_empty_thought_and_an_empty_reply_are_none(self) -> None:
        parser, deltas = parse("\n</think>\n\n", in_thought=True)
        assert (parser.reasoning, parser.content, deltas) == (None, None, [])

    def test_a_call_inside_a_thought_is_not_a_call(self) -> None:
        parser, _ = parse(f"I could {call({})} now", in_thought=True)
        assert parser.tool_calls == []
        assert parser.reasoning == f"I could {call({})} now"

    def test_only_the_first_closing_tag_ends_the_thought(self) -> None:
        parser, _ = parse("a</think>b</think>c", in_thought=True)
        assert (parser.reasoning, parser.content) == ("a", "b</think>c")

    def test_reasoning_comes_as_it_is_written(self) -> None:
        parser = ReplyParser(in_thought=True)
        assert parser.feed("one ") == [ReplyDelta("reasoning", "one")]
        assert parser.feed("two</th") == [ReplyDelta("reasoning", " two")]
        assert parser.feed("ree") == [ReplyDelta("reasoning", "</three")]


class TestWhereAReplyStarts:
    @pytest.mark.parametrize("thinks_by_default", [True, False])
    @pytest.mark.parametrize("switch", [True, False, None])
    def test_it_is_read_from_the_rendered_prompt(self, thinks_by_default: bool, switch: bool | None) -> None:
        template = ChatTemplate(template_text(thinks_by_default))
        prompt = template.render(
            [{"role": "user", "content": "What is <think>?"}],
            add_generation_prompt=True,
            enable_thinking=switch,
        )
        assert starts_in_thought(prompt) == (thinks_by_default if switch is None else switch)

    @pytest.mark.parametrize(
        ("message", "field", "inside"),
        [
            ({"content": "part"}, True, False),
            ({"content": "", "reasoning_content": "abc"}, "reasoning_content", True),
            ({"content": "<think>\nabc"}, True, True),
            ({"content": "the tag <think> is"}, True, False),
        ],
    )
    def test_a_continued_message(self, message: dict[str, str], field: bool | str, inside: bool) -> None:
        template = ChatTemplate(template_text(thinking_by_default=True))
        conversation = [{"role": "user", "content": "q"}, {"role": "assistant", **message}]
        assert starts_in_thought(template.render(conversation, continue_final_message=field)) is inside

    @pytest.mark.parametrize(
        ("prompt", "inside"),
        [
            ("", False),
            ("Tell me of <think> tags", False),
            ("Question\n<think>\n", True),
            ("<|im_start|>user\n<think>\nx", False),
            ("<|im_start|>assistant\n<think>\nx<|im_end|>\n", False),
            ("<|im_start|>user\n<think><|im_end|>\n<|im_start|>assistant\n", False),
        ],
    )
    def test_other_prompts(self, prompt: str, inside: bool) -> None:
        assert starts_in_thought(prompt) is inside


class TestCalls:
    def test_a_call_with_text_before_it(self) -> None:
        parser, deltas = parse("Let me see.\n\n" + call({"s": "x", "i": "5"}))
        assert parser.content == "Let me see."
        assert [(one.id, one.name, one.arguments) for one in parser.tool_calls] == [
            ("call_0", "f", '{"s": "x", "i": 5}')
        ]
        assert parser.finish_reason == "tool_calls"
        assert deltas[1] == ReplyDelta("tool_call_start", "", index=0, name="f", call_id="call_0")
        assert "".join(delta.text for delta in deltas[2:]) == '{"s": "x", "i": 5}'

    def test_several_calls_are_numbered(self) -> None:
        parser, deltas = parse(call({"s": "1"}) + "\n" + call({"s": "2"}) + "\n")
        assert parser.content is None
        assert [(one.name, one.arguments) for one in parser.tool_calls] == [
            ("f", '{"s": "1"}'),
            ("f", '{"s": "2"}'),
        ]
        assert [delta.index for delta in deltas if delta.kind == "tool_call_start"] == [0, 1]

    def test_a_function_that_was_not_offered_is_called_with_its_name(self) -> None:
        parser, _ = parse(call({"s": "2"}, name="g"))
        assert [(one.name, one.arguments) for one in parser.tool_calls] == [("g", '{"s": 2}')]

    def test_text_after_a_call_is_content(self) -> None:
        parser, _ = parse("a\n" + call({}) + "\nb")
        assert (parser.content, len(parser.tool_calls)) == ("a\nb", 1)

    def test_a_call_without_arguments_has_an_empty_object(self) -> None:
        assert arguments(call({})) == {}

    def test_layout_may_differ(self) -> None:
        tight = (
            "<tool_call><function=f><parameter=s>x</parameter><parameter=i> 5 </parameter>"
            "</function></tool_call>"
        )
        assert arguments(tight) == {"s": "x", "i": 5}

    def test_one_newline_on_each_side_of_a_value_is_format(self) -> None:
        assert arguments(call({"s": "\n two\n lines \n"})) == {"s": "\n two\n lines \n"}
        assert arguments(call({"s": ""})) == {"s": ""}
        assert arguments("<tool_call><function=f><parameter=s>\n</parameter></function></tool_call>") == {
            "s": ""
        }

    def test_values_may_hold_tags_and_quotes(self) -> None:
        value = 'say "</function>" and </tool_call> \\ <parameter=x> \u2028 \x00'
        assert arguments(call({"s": value})) == {"s": value}

    def test_without_tools_the_text_is_content(self) -> None:
        for tools in (None, []):
            parser, _ = parse("a " + call({"s": "x"}), tools=tools)
            assert (parser.content, parser.tool_calls) == ("a " + call({"s": "x"}), [])
            assert parser.finish_reason == "stop"

    def test_a_call_cut_off_is_content_and_keeps_its_finish_reason(self) -> None:
        whole = "Look:\n\n" + call({"s": "some text", "i": "5"})
        for end in range(len("Look:\n\n<tool_call>"), len(whole)):
            parser, deltas = parse(*whole[:end], finish_reason="length")
            assert (parser.content, parser.tool_calls) == (whole[:end], [])
            assert parser.finish_reason == "length"
            assert {delta.kind for delta in deltas} == {"content"}

    @pytest.mark.parametrize("tag", ["<func", "<tool_c", "<tool_call", "</think", "<"])
    def test_the_beginning_of_a_tag_is_flushed(self, tag: str) -> None:
        for text in (f"see {tag}", f"see {tag} it"):
            parser, _ = parse(*text)
            assert parser.content == text

    @pytest.mark.parametrize(
        "text",
        [
            "<tool_call>",
            "<tool_call>\n</tool_call>",
            "<tool_call>\nf(x)\n</tool_call>",
            '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
            "<tool_call>\n<function=>\n</function>\n</tool_call>",
            "<tool_call>\n<function= >\n</function>\n</tool_call>",
            "<tool_call>\n<function=f\n</function>\n</tool_call>",
            "<tool_call>\n<function=" + "f" * 300 + ">\n</function>\n</tool_call>",
            "<tool_call>\n<function=f>\nnow\n</function>\n</tool_call>",
            "<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n</tool_call>",
            "<tool_call>\n<function=f>\n<parameter=>\nx\n</parameter>\n</function>\n</tool_call>",
            "<tool_call>\n<function=f>\n<parameter=s>\nx\n</function>\n</tool_call>",
            "<tool_call>\n<function=f>\n</function>",
            "<tool_call>\n<function=f>\n</function>\n<function=g>\n</function>\n</tool_call>",
            "<tool_call>\n<function=f>\n<parameter=s>1</parameter>\n<parameter=s>2</parameter>\n</function>\n</tool_call>",
            "<TOOL_CALL>\n<function=f>\n</function>\n</TOOL_CALL>",
            "<function=f>\n</function>",
        ],
    )  # fmt: skip
    def test_a_malformed_call_is_content(self, text: str) -> None:
        for whole in (text, f"a\n\n{text}", f"{text}\n\nb"):
            for deltas in ([whole], list(whole)):
                parser, out = parse(*deltas)
                assert (parser.content, parser.tool_calls) == (whole, [])
                assert "".join(delta.text for delta in out) == whole
                assert parser.finish_reason == "stop"

    def test_a_good_call_after_a_malformed_one_counts(self) -> None:
        parser, deltas = parse("<tool_call>\noops " + call({"s": "x"}))
        assert parser.content == "<tool_call>\noops"
        assert [one.arguments for one in parser.tool_calls] == ['{"s": "x"}']
        assert [delta.index for delta in deltas if delta.kind == "tool_call_start"] == [0]

    def test_ids_of_calls_differ(self) -> None:
        parser = ReplyParser(in_thought=False, tools=[TOOL])
        parser.feed(call({}) * 3)
        parser.finish("stop")
        ids = {one.id for one in parser.tool_calls}
        assert len(ids) == 3
        assert all(one.startswith("call_") for one in ids)

    def test_a_finished_parser_takes_no_more(self) -> None:
        parser, _ = parse("a")
        with pytest.raises(RuntimeError):
            parser.feed("b")
        with pytest.raises(RuntimeError):
            parser.finish("stop")


class TestLiveArguments:
    def test_a_string_goes_out_while_it_is_written(self) -> None:
        parser = ReplyParser(in_thought=False, tools=[TOOL], live_arguments=True, new_call_id=lambda: "c")
        assert parser.feed("<tool_call>\n<function=f>") == [
            ReplyDelta("tool_call_start", "", index=0, name="f", call_id="c")
        ]
        assert [d.text for d in parser.feed("<parameter=s>\n")] == ['{"s": "']
        assert [d.text for d in parser.feed('one "two')] == ['one \\"two']
        assert parser.feed("\n") == []
        assert [d.text for d in parser.feed("three\n</para")] == ["\\nthree"]
        assert [d.text for d in parser.feed("meter>\n</function>\n</tool_call>")] == ['"', "}"]
        parser.finish("stop")
        assert parser.tool_calls[0].arguments == '{"s": "one \\"two\\nthree"}'

    def test_values_of_other_types_wait_for_their_end(self) -> None:
        parser = ReplyParser(in_thought=False, tools=[TOOL], live_arguments=True)
        parser.feed("<tool_call>\n<function=f>")
        assert parser.feed("<parameter=i>\n5") == []
        assert [d.text for d in parser.feed("\n</parameter>")] == ['{"i": 5']

    def test_a_call_cut_off_is_content_all_the_same(self) -> None:
        text = call({"s": "x"})[:-20]
        parser, _ = parse(text, live=True, finish_reason="length")
        assert (parser.content, parser.tool_calls) == (text, [])

    def test_by_default_nothing_of_a_call_goes_out_before_its_end(self) -> None:
        parser = ReplyParser(in_thought=False, tools=[TOOL])
        text = call({"s": "x"})
        assert parser.feed(text[:-1]) == []
        assert [delta.kind for delta in parser.feed(">")][:2] == ["tool_call_start", "tool_call_arguments"]
