"""Calls that must be made, or must be made well; the model is random, so nothing comes by itself."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import jsonschema
import pytest

from qanat.engine.guiding import CallRule
from qanat.engine.llm import LLM
from qanat.engine.reply import Reply
from qanat.engine.sampling_params import SamplingParams
from qanat.engine.structure import Structure
from qanat.errors import GrammarError, RequestError
from qanat.text.dialects.call_grammar import call_list
from tests.engine.tiny import scripted, write_tiny
from tests.json_schemas import random_schema, violation

ASK = [{"role": "user", "content": "Weather?"}]


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> LLM:
    """A context with room for tools and long replies."""
    return LLM(write_tiny(tmp_path_factory.mktemp("roomy"), max_position_embeddings=3000), max_batch=8)


def tool(
    name: str, properties: dict[str, Any] | None = None, required: Any = (), **more: Any
) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties or {}, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema, **more}}


WEATHER = tool(
    "get_weather",
    {
        "city": {"type": "string", "enum": ["Yazd", "Bam", "two\nlines"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "hourly": {"type": "boolean"},
        "where": {
            "type": "object",
            "properties": {"lat": {"$ref": "#/$defs/angle"}},
            "required": ["lat"],
            "additionalProperties": False,
        },
        "unit": {"enum": ["C", "F", 3, None]},
        "list": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    },
    ["city", "days", "where"],
)
WEATHER["function"]["parameters"]["$defs"] = {"angle": {"type": "number", "minimum": -90, "maximum": 90}}
NOW = tool("now")
TOOLS = [WEATHER, NOW]


def call(llm: LLM, seed: int, tools: list[dict[str, Any]] = TOOLS, **options: Any) -> Reply:
    structure = options.pop("structure", None)
    params = SamplingParams(temperature=1.2, seed=seed, max_tokens=350, structure=structure)
    options = {"enable_thinking": False, **options}
    return llm.chat(ASK, params, tools=tools, **options)


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def assert_calls_are_valid(reply: Reply, tools: list[dict[str, Any]] = TOOLS) -> None:
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    for made in reply.tool_calls:
        jsonschema.validate(json.loads(made.arguments), schemas[made.name])


@pytest.mark.parametrize("many", [True, False])
def test_required_makes_calls_by_the_schema_and_says_nothing_else(llm: LLM, many: bool) -> None:
    replies = [call(llm, s, tool_choice="required", parallel_tool_calls=many) for s in range(12)]
    whole = [r for r in replies if r.finish_reason == "tool_calls"]
    assert len(whole) > 6
    for reply in whole:
        assert reply.text == ""
        assert len(reply.tool_calls) == 1 or many
        assert_calls_are_valid(reply)
    assert {made.name for reply in whole for made in reply.tool_calls} == {"get_weather", "now"}
    assert many == any(len(reply.tool_calls) > 1 for reply in whole)


def test_a_named_function_is_called_once(llm: LLM) -> None:
    for seed in range(4):
        [made] = call(llm, seed, tool_choice=named("now")).tool_calls
        assert (made.name, made.arguments) == ("now", "{}")
    [made] = call(llm, 1, tool_choice=named("get_weather")).tool_calls
    assert made.name == "get_weather"


def test_a_call_comes_behind_the_thought(llm: LLM) -> None:
    params = SamplingParams(temperature=1.2, seed=1, max_tokens=200, thinking_budget=10)
    reply = llm.chat(ASK, params, tools=TOOLS, tool_choice=named("now"), enable_thinking=True)
    assert (reply.text, [made.name for made in reply.tool_calls]) == ("", ["now"])
    assert "</think>\n\n<tool_call>\n<function=now>" in llm.tokenizer.decode(reply.token_ids)


@pytest.mark.parametrize(
    "text", ["", "hi", "two\nlines", "a </param b <tool_cal>", "\n\n", '"quoted"', "日本"]
)
def test_a_raw_string_is_what_the_model_wrote_up_to_the_closing_tag(llm: LLM, text: str) -> None:
    tools = [tool("note", {"text": {"type": "string"}, "n": {"type": "integer"}}, ["text", "n"])]
    written = (
        f"<tool_call>\n<function=note>\n<parameter=text>\n{text}\n</parameter>\n"
        "<parameter=n>\n12\n</parameter>\n</function>\n</tool_call>"
    )
    with scripted(llm, written):  # the grammar follows, and ends the reply if it cannot
        [made] = call(llm, 0, tools, tool_choice="required").tool_calls
    assert json.loads(made.arguments) == {"text": text, "n": 12}


def allowed_after(llm: LLM, written: str, tools: list[dict[str, Any]], **options: Any) -> set[str] | None:
    """The tokens that may follow a text; None: any."""
    rule = CallRule.of(tools, options.pop("tool_choice", "auto"), options.pop("parallel_tool_calls", True))
    made = llm._guiding.prepare(SamplingParams(**options), rule, in_thought=False)()
    if made is None:
        return None
    for token in llm.tokenizer.encode(written):
        made.accept(token)
    words = made.limits.allowed
    if words is None:
        return None
    return {llm.tokenizer.token_text(i) for i in range(32 * len(words)) if words[i // 32] >> (i % 32) & 1}


ONE = "<tool_call>\n<function=now>\n</function>\n</tool_call>"
ENDS = {"<|im_end|>", "<|endoftext|>"}


def test_without_a_rule_nothing_is_watched(llm: LLM) -> None:
    assert allowed_after(llm, "", TOOLS) is None
    assert allowed_after(llm, ONE, TOOLS) is None


def test_a_model_that_may_call_once_is_free_until_it_does(llm: LLM) -> None:
    once = {"parallel_tool_calls": False}
    assert allowed_after(llm, "Let me see. ", TOOLS, **once) is None
    assert allowed_after(llm, "Well: <tool_call>", TOOLS, **once) == {"\n"}
    assert allowed_after(llm, "Well: " + ONE, TOOLS, **once) == ENDS
    assert allowed_after(llm, ONE, TOOLS, tool_choice="required", **once) == ENDS
    assert allowed_after(llm, ONE, TOOLS, tool_choice="required") == {*ENDS, "\n"}


def test_strict_tools_hold_every_call_to_its_schema(llm: LLM) -> None:
    strict = [tool("pick", {"colour": {"enum": ["red", "blue"]}}, ["colour"], strict=True)]
    begun = "<tool_call>\n<function=pick>\n<parameter=colour>\n"
    following = allowed_after(llm, begun, strict)
    assert following is not None
    assert {text[0] for text in following} == {"r", "b"}
    after = begun + "red\n</parameter>\n</function>\n</tool_call>"
    assert allowed_after(llm, after, strict) is None  # and it may go on


@pytest.mark.parametrize("idle", [{"ignore_eos": True}, {"min_tokens": 5}])
def test_what_contradicts_calls_that_end_the_reply_is_refused(llm: LLM, idle: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="contradict"):
        llm.chat(ASK, SamplingParams(**idle), tools=TOOLS, tool_choice="required")


def test_a_tag_of_several_tokens_begins_a_call_too(llm: LLM) -> None:
    text = "<tool_call>"
    pieces = [i for part in ("<to", "ol_c", "all>") for i in llm.tokenizer.encode(part)]
    assert llm.tokenizer.token_id(text) not in pieces
    rule_of = llm._guiding.prepare
    guide = rule_of(SamplingParams(), CallRule.of(TOOLS, "auto", False), in_thought=False)()
    assert guide is not None
    for token in pieces:
        guide.accept(token)
    assert guide.limits.allowed is not None


def test_a_form_with_tools_is_an_answer_of_the_form_or_calls(llm: LLM) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    schema["additionalProperties"] = False
    form = Structure.json_schema(schema)
    assert allowed_after(llm, "", TOOLS, structure=form) >= {"<tool_call>", "{"}  # type: ignore[operator]
    seen = set()
    for seed in range(10):
        reply = call(llm, seed, [NOW], structure=form)
        if reply.finish_reason == "length":
            continue
        seen.add(bool(reply.tool_calls))
        assert reply.tool_calls or violation(reply.text, schema) is None
    assert seen


def test_a_call_that_is_made_in_freedom_is_read_as_ever(llm: LLM) -> None:
    with scripted(llm, "Well. " + ONE):
        reply = call(llm, 0, parallel_tool_calls=False)
    assert (reply.text, len(reply.tool_calls), reply.finish_reason) == ("Well.", 1, "tool_calls")


@pytest.mark.parametrize(
    ("tools", "options", "message"),
    [
        ([], {"tool_choice": "required"}, "there are no tools"),
        (TOOLS, {"tool_choice": "none"}, "tool_choice must be"),
        (TOOLS, {"tool_choice": 5}, "tool_choice must be"),
        (TOOLS, {"tool_choice": {"type": "function"}}, "tool_choice must be"),
        (TOOLS, {"tool_choice": named("fly")}, "none of the tools"),
        (TOOLS, {"parallel_tool_calls": "no"}, "parallel_tool_calls must be"),
        ([tool("a", {"x>": {"type": "integer"}})], {"tool_choice": "required"}, "'x>'"),
        ([tool("a", {"x" * 257: {"type": "integer"}})], {"tool_choice": "required"}, "cannot be written"),
        ([tool("a" * 257)], {"tool_choice": "required"}, "cannot be written"),
        ([tool("a", {}, ["x"])], {"tool_choice": "required"}, "'x' is required"),
        ([tool("a", {}, [["x"]])], {"tool_choice": "required"}, "is required, but"),
        ([tool("a", {}, [{"x": 1}], strict=True)], {}, "is required, but"),
        (
            [tool("a", {"x": {"type": "integer", "not": {}}})],
            {"tool_choice": "required"},
            "schema of the tools",
        ),
    ],
    ids=range(13),
)
def test_a_rule_that_makes_no_sense_is_refused(llm: LLM, tools: Any, options: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        call(llm, 0, tools, **options)


ENUM = {"$defs": {"Colour": {"enum": ["red", "green"], "type": "string"}}}
"""As pydantic writes an Enum."""


def begun(name: str) -> str:
    return f"<tool_call>\n<function=a>\n<parameter={name}>\n"


def accepts(
    llm: LLM, schema: dict[str, Any], written: str, *, root: dict[str, Any] | None = None, **more: Any
) -> bool:
    """Whether a forced call may write an argument so."""
    tools = [tool("a", {"x": schema}, ["x"], **more)]
    tools[0]["function"]["parameters"].update(root or {})
    guide = llm._guiding.prepare(SamplingParams(), CallRule.of(tools, "required", True), in_thought=False)()
    assert guide is not None
    try:
        for token in llm.tokenizer.encode(f"{begun('x')}{written}\n</parameter>\n</function>\n</tool_call>"):
            guide.accept(token)
    except RequestError:
        return False
    return True


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("schema", "written", "held"),
    [
        ({"type": "array", "items": {"type": "string"}}, '["a<b", "c"]', True),
        ({"type": "array", "items": {"type": "string"}}, '["x</parameter>y"]', False),
        ({"type": "number"}, "1.5", True),
        ({"type": "number"}, "1e999", False),
        ({"type": "number"}, "1" * 301, False),
        ({"type": "array", "items": {"type": "number"}}, "[1e999]", False),
        ({"type": "integer"}, "-12", True),
        ({"type": "integer", "minimum": 3}, "2", False),
        ({"enum": ["5", 7]}, "7", True),
        ({"enum": ["5", 7]}, "5", False),
        ({"enum": ["True", False]}, "True", False),
        ({"enum": ["True", False]}, "false", True),
        ({"type": ["string", "null"], "enum": ["None", "x"]}, "None", False),
        ({"type": ["string", "null"], "enum": ["None", "x"]}, "x", True),
        ({"type": "string", "enum": ["x", None]}, "null", False),
        ({"type": "string", "minLength": 2, "maxLength": 3}, "abc", True),
        ({"type": "string", "minLength": 2, "maxLength": 3}, "a", False),
        ({"type": "string", "minLength": 2, "maxLength": 3}, "abcd", False),
        ({"$ref": "#/$defs/Colour"}, "red", True),
        ({"$ref": "#/$defs/Colour"}, "purple", False),
        ({"anyOf": [{"$ref": "#/$defs/Colour"}, {"type": "null"}], "default": None}, "null", True),
        ({"anyOf": [{"$ref": "#/$defs/Colour"}, {"type": "null"}], "default": None}, "green", True),
        ({"anyOf": [{"$ref": "#/$defs/Colour"}, {"type": "null"}], "default": None}, "purple", False),
        ({"allOf": [{"$ref": "#/$defs/Colour"}], "description": "d"}, "purple", False),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "anything at all", True),
        ({"anyOf": [{"type": "boolean", "const": True}, {"const": "maybe"}]}, "false", False),
        ({"anyOf": [{"type": "boolean", "const": True}, {"const": "maybe"}]}, "maybe", True),
        ({}, "anything at all", True),
        ({"type": "array", "items": {"$ref": "#/$defs/Colour"}}, '["red"]', True),
        ({"type": "array", "items": {"$ref": "#/$defs/Colour"}}, '["purple"]', False),
        ({"const": "del\x7f"}, "del\x7f", True),
        ({"const": "<|im_end|>"}, "<|im_end|>", False),
        ({"type": "integer"}, "9" * 15, True),
        ({"type": "integer"}, "9" * 16, False),
    ],
    ids=range(34),
)  # fmt: skip
def test_an_argument_is_written_only_so_that_it_is_read_as_the_schema_says(
    llm: LLM, schema: dict[str, Any], written: str, held: bool, strict: bool
) -> None:
    assert accepts(llm, schema, written, root=ENUM, strict=strict) == held


@pytest.mark.parametrize(
    ("schema", "root", "message"),
    [
        ({"type": "string", "pattern": "a"}, {}, "cannot be held to `pattern`"),
        ({"type": "string", "format": "date"}, {}, "cannot be held to `format`"),
        (
            {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "null"}}]},
            {},
            "which a string could break",
        ),
        ({"type": "array"}, {}, "every value needs a type"),
        ({"type": "array", "items": {}}, {}, "every value needs a type"),
        ({"type": "object"}, {}, "`additionalProperties` false"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {}, "`additionalProperties` false"),
        ({"type": "array", "items": {"type": "string", "pattern": "^.*$"}}, {}, "may have no `pattern`"),
        ({"$ref": "#/$defs/o"}, {"$defs": {"o": {"type": "object"}}}, "`additionalProperties` false"),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}], "maxLength": 5},
            {},
            "may have nothing beside them",
        ),
        ({"allOf": [{"type": "string", "enum": ["a"]}, {"title": "x"}]}, {}, "may have nothing beside them"),
        ({"type": "string", "allOf": [{"enum": ["a"]}]}, {}, "may have nothing beside them"),
        ({"anyOf": [{"type": "string", "minLength": 5}, {"type": "integer"}]}, {}, "read as something else"),
        ({"type": "integer", "enum": [1e22]}, {}, "beyond 2.53"),
        ({"enum": [1, 2], "minimum": 2}, {}, "`enum` and `const` may have no other condition"),
        ({"enum": ["a</parameter>"]}, {}, "it holds '</parameter>'"),
        ({"enum": []}, {}, "no value of it can be written"),
        ({"enum": 5}, {}, "`enum` must be a list"),
        ({"type": "array", "items": {"enum": ["a</parameter>b"]}}, {}, "it holds '</parameter>'"),
        ({"type": "array", "items": {"$ref": "#"}}, {}, "a reference must begin with"),
        ({"$ref": "#/properties/y"}, {}, "a reference must begin with"),
        ({"$ref": "#/$defs/none"}, {}, "leads nowhere"),
        ({"$ref": "#/$defs/loop"}, {"$defs": {"loop": {"$ref": "#/$defs/loop"}}}, "no value of it"),
        ({"type": "integer"}, {"minProperties": 1}, "cannot be held to 'minProperties'"),
        ({"type": "integer"}, {"anyOf": [{"required": ["x"]}]}, "cannot be held to 'anyOf'"),
        ({"type": "integer", "multipleOf": 99999989}, {}, "too large"),
        ({"const": 2**53 + 1}, {}, "beyond 2.53"),
    ],
    ids=range(27),
)
def test_strict_is_refused_where_the_schema_could_be_broken(
    llm: LLM, schema: dict[str, Any], root: dict[str, Any], message: str
) -> None:
    with pytest.raises(GrammarError, match=f"the tool 'a': .*{message}"):
        accepts(llm, schema, "", root=root, strict=True)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


TEN_TIMES = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 10} for i in range(20)}
LISTS = {f"p{i}": {"type": "array", "items": {"$ref": "#/$defs/d0"}} for i in range(200)}


@pytest.mark.parametrize(
    ("properties", "definitions", "message"),
    [
        (
            {"x": {"$ref": "#/$defs/a0"}},
            {**TEN_TIMES, "a20": {"type": "string"}},
            "alternatives and references",
        ),
        ({"x": {"enum": ["a" * 60 + str(i) for i in range(1200)]}}, {}, "characters of JSON"),
        (LISTS, {f"d{i}": {"type": "integer", "maximum": i} for i in range(1000)}, "too large together"),
        ({"x": nested(3000)}, {}, "are no JSON"),
        ({"x": {"enum": {1, 2}}}, {}, "are no JSON"),
    ],
    ids=range(5),
)
def test_a_tool_that_would_take_endless_work_is_refused_at_once(
    properties: dict[str, Any], definitions: dict[str, Any], message: str
) -> None:
    tools = [tool("a", properties, ["x"] if "x" in properties else [])]
    tools[0]["function"]["parameters"]["$defs"] = definitions
    begin = time.thread_time()
    with pytest.raises(GrammarError, match=message):
        call_list(tools, json.dumps, many=True)
    assert time.thread_time() - begin < 2


def test_an_enumeration_of_thousands_is_written_in_time() -> None:
    begin = time.thread_time()
    assert "v4999" in call_list(
        [tool("a", {"x": {"enum": [f"v{i}" for i in range(5000)]}})], json.dumps, many=True
    )
    assert time.thread_time() - begin < 1


def test_random_tools_are_called_as_their_schemas_say(llm: LLM) -> None:
    whole = 0
    for seed in range(60):
        schema = random_schema(seed)
        tools = [tool("a", schema["properties"], schema["required"])]
        tools[0]["function"]["parameters"] |= {k: v for k, v in schema.items() if k == "$defs"}
        try:
            reply = call(llm, seed, tools, tool_choice="required", parallel_tool_calls=False)
        except GrammarError as error:
            # An enum of which nothing is read back as it was; a text of some length that may be a number.
            if re.search("be written|read as something else", str(error)):
                continue
            raise
        if reply.finish_reason == "length":
            continue
        whole += 1
        assert (reply.finish_reason, reply.text) == ("tool_calls", "")
        for key in tools[0]["function"]["parameters"]["properties"].values():
            key.pop("pattern", None), key.pop("format", None)  # of raw strings they are not held
        assert_calls_are_valid(reply, tools)
    assert whole > 25
