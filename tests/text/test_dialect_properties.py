"""Properties of reading replies: the cut does not matter, nothing raises, time is linear."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qanat.text.dialects import ReplyDelta, ReplyParser
from tests.text.test_dialects import TOOL, call

Deltas = list[ReplyDelta]

TAGS = [
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<function=f>", "<function=g>", "</function>"),
    *("<parameter=s>", "<parameter=i>", "<parameter=maybe>", "</parameter>", "<", ">", "</"),
]
TEXTS = ["\n", "\n\n", " ", "text", "5", "null", '"', "\\", "天", "🦄", "\u2028", "\ud83d"]
CALLS = [call({}), call({"s": "a\nb", "i": "7"}), call({"free": "[1]", "o": '{"k": 1}'})]
replies = st.lists(st.sampled_from(TAGS + TEXTS + CALLS) | st.text(max_size=4), max_size=14).map("".join)


def parse(deltas: list[str], *, in_thought: bool, tools: Any, live: bool) -> tuple[ReplyParser, Deltas]:
    ids = map("call_{}".format, itertools.count())
    parser = ReplyParser(in_thought=in_thought, tools=tools, live_arguments=live, new_call_id=ids.__next__)
    out = [delta for text in deltas for delta in parser.feed(text)]
    return parser, out + parser.finish("stop")


def result(parser: ReplyParser) -> Any:
    calls = [(one.id, one.name, one.arguments) for one in parser.tool_calls]
    return parser.reasoning, parser.content, calls, parser.finish_reason


def joined(deltas: Deltas, kind: str, index: int | None = None) -> str:
    return "".join(delta.text for delta in deltas if delta.kind == kind and delta.index == index)


@settings(max_examples=300, deadline=None)
@given(replies, st.lists(st.integers(0, 300), max_size=12), st.booleans(), st.booleans(), st.booleans())
@example("r\n</think>\n\nHi.\n\n" + call({"s": "x"}), list(range(200)), True, True, True)
def test_how_a_reply_is_cut_does_not_matter(
    text: str, cuts: list[int], in_thought: bool, with_tools: bool, live: bool
) -> None:
    tools = [TOOL] if with_tools else None
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in itertools.pairwise(edges)]
    whole, whole_deltas = parse([text], in_thought=in_thought, tools=tools, live=live)
    for deltas in (pieces, list(text)):
        cut, cut_deltas = parse(deltas, in_thought=in_thought, tools=tools, live=live)
        assert result(cut) == result(whole)
        for kind in ("reasoning", "content"):
            assert joined(cut_deltas, kind) == joined(whole_deltas, kind)


@settings(max_examples=300, deadline=None)
@given(replies, st.booleans(), st.booleans())
def test_the_deltas_join_to_the_result(text: str, in_thought: bool, live: bool) -> None:
    parser, deltas = parse(list(text), in_thought=in_thought, tools=[TOOL], live=live)
    assert joined(deltas, "reasoning") == (parser.reasoning or "")
    assert joined(deltas, "content") == (parser.content or "")
    assert all(delta.text or delta.kind == "tool_call_start" for delta in deltas)
    starts = {delta.call_id: delta for delta in deltas if delta.kind == "tool_call_start"}
    for one in parser.tool_calls:
        assert starts[one.id].name == one.name
        assert joined(deltas, "tool_call_arguments", starts[one.id].index) == one.arguments
        assert isinstance(json.loads(one.arguments), dict)
        one.arguments.encode()
    if not live:
        assert [delta.index for delta in starts.values()] == list(range(len(parser.tool_calls)))


@settings(max_examples=200, deadline=None)
@given(replies)
def test_nothing_but_format_is_lost(text: str) -> None:
    parser, _ = parse([text], in_thought=False, tools=None, live=False)
    assert (parser.content or "") == text
    with_tools, _ = parse([text], in_thought=False, tools=[TOOL], live=False)
    if not with_tools.tool_calls:
        assert (with_tools.content or "") == text


names = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters="<>"), min_size=1, max_size=9
)
values_as_text = st.text().filter(lambda text: "</parameter>" not in text)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(names, values_as_text, max_size=4))
def test_any_string_survives_the_way_through_a_call(values: dict[str, str]) -> None:
    tool = {"name": "f", "parameters": {"properties": {key: {"type": "string"} for key in values}}}
    for live in (False, True):
        parser, _ = parse(list(call(values)), in_thought=False, tools=[tool], live=live)
        assert json.loads(parser.tool_calls[0].arguments) == values


def seconds(text: str, live: bool) -> float:
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    start = time.process_time()
    parse(pieces, in_thought=True, tools=[TOOL], live=live)
    return time.process_time() - start


def test_time_is_linear_in_the_length_of_the_reply() -> None:
    value = "</think><tool_call>\n<function=f>\n<parameter=s>\n"
    repeated = {
        "": ("word < \n", "\n"),
        "</think>": ("\n", "word < \n", "<tool_call>", value.removeprefix("</think>"), call({"i": "5"})),
        value: ("text\n", "\n</para", "<tool_call>"),
        "</think><tool_call>\n<function=": ("name",),
    }
    for start, units in repeated.items():
        for unit in units:
            short, long = (seconds(start + unit * (size // len(unit)), live=True) for size in (1_000, 12_000))
            assert long < 40 * short + 0.2, (start, unit, short, long)  # quadratic: 144 times


def test_a_long_reply_in_one_piece_is_no_slower() -> None:
    whole = "</think>" + call({"s": "x", "i": "5"}) * 3_000
    begin = time.process_time()
    parser, _ = parse([whole], in_thought=True, tools=[TOOL], live=False)
    assert time.process_time() - begin < 10
    assert len(parser.tool_calls) == 3_000


@pytest.mark.proof
def test_a_megabyte_reply_in_small_pieces_is_read_in_seconds() -> None:
    value = "</think><tool_call>\n<function=f>\n<parameter=s>\n"
    for start in ("", "</think>", value):
        for live in (False, True):
            assert seconds(start + "some words, < \n" * 70_000, live) < 60
