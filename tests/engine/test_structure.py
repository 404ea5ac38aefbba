"""Replies of a form: what a model may say, whatever it would rather say. The model here is random."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from qanat.engine import grammars
from qanat.engine.llm import LLM
from qanat.engine.sampling_params import SamplingParams
from qanat.engine.structure import MAX_SOURCE, Structure
from qanat.errors import QueueFullError, RequestError
from tests.cli.commands import PYTHON, environment
from tests.engine.tiny import scripted, write_tiny
from tests.json_schemas import random_schema, violation

ASK = [{"role": "user", "content": "Tell me."}]
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 99}, "up": {"type": "boolean"}},
    "required": ["x", "up"],
    "additionalProperties": False,
}
AS_JSON = Structure.json_schema(POINT)


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> LLM:
    """A context with room for tools and long replies."""
    return LLM(write_tiny(tmp_path_factory.mktemp("roomy"), max_position_embeddings=3000), max_batch=8)


def drawn(structure: Structure | None, seed: int = 0, **more: Any) -> SamplingParams:
    options = {"temperature": 1.5, "seed": seed, "max_tokens": 400, **more}
    return SamplingParams(structure=structure, **options)


def test_random_schemas_are_kept_by_a_model_that_knows_nothing(llm: LLM) -> None:
    schemas = [random_schema(seed) for seed in range(60)]
    params = [drawn(Structure.json_schema(schema), seed) for seed, schema in enumerate(schemas)]
    replies = llm.generate(["Go:"] * len(schemas), params)
    whole = [(r.text, s) for r, s in zip(replies, schemas, strict=True) if r.finish_reason == "stop"]
    assert len(whole) > 40
    assert [why for text, schema in whole if (why := violation(text, schema))] == []


def test_a_reply_of_a_form_depends_on_nobody_else(llm: LLM) -> None:
    schemas = [Structure.json_schema(random_schema(seed)) for seed in range(6)] + [None, None]
    params = [drawn(schema, seed, max_tokens=60) for seed, schema in enumerate(schemas)]
    together = llm.generate(["Go:"] * len(params), params)
    alone = [llm.generate("Go:", p) for p in params]
    assert [r.token_ids for r in together] == [r.token_ids for r in alone]


def test_each_of_several_choices_keeps_the_form(llm: LLM) -> None:
    reply = llm.generate("Go:", drawn(AS_JSON, n=5))
    texts = [r.text for r in (reply, *reply.alternatives)]
    assert len(set(texts)) > 1
    assert [violation(text, POINT) for text in texts] == [None] * 5


@pytest.mark.parametrize(
    ("structure", "expected"),
    [
        (Structure.regex("(ab|cd){2}[0-9]"), r"(ab|cd){2}[0-9]"),
        (Structure.regex("[αβ]{3}"), "[αβ]{3}"),
        (Structure.grammar('start: "<" word ">"\nword: /[a-c]{2}/ | "日"'), "<([a-c]{2}|日)>"),
        (Structure.json_object(), r"(?s)\{.*\}"),
        (Structure.json_schema('{"enum": ["one", 2]}'), '"one"|2'),
    ],
    ids=range(5),
)
def test_every_kind_of_form_is_kept(llm: LLM, structure: Structure, expected: str) -> None:
    replies = [llm.generate("Go:", drawn(structure, seed)) for seed in range(6)]
    ended = [r.text for r in replies if r.finish_reason == "stop"]
    assert ended
    assert [text for text in ended if not re.fullmatch(expected, text)] == []


def test_the_form_begins_behind_the_thought_which_must_be_closed(llm: LLM) -> None:
    params = drawn(AS_JSON, thinking_budget=20)
    for seed in range(5):
        reply = llm.chat(ASK, drawn(AS_JSON, seed, thinking_budget=20), enable_thinking=True)
        assert violation(reply.text, POINT) is None
        assert reply.finish_reason == "stop"
        text = llm.tokenizer.decode(reply.token_ids)
        assert re.fullmatch(r"(?s).*</think>\n\n\{.*\}<\|(im_end|endoftext)\|>", text)
        assert "<|im_end|>" not in text.partition("</think>")[0]
    raw = llm.template.render(ASK, add_generation_prompt=True, enable_thinking=True)
    chat = llm.chat(ASK, params, enable_thinking=True)
    assert llm.generate(raw, params).token_ids == chat.token_ids
    assert llm.generate(llm.tokenizer.encode(raw), params).token_ids == chat.token_ids


@pytest.mark.parametrize("budget", [0, 1, 7])
def test_a_thought_is_closed_when_its_budget_is_spent(llm: LLM, budget: int) -> None:
    closing = llm.tokenizer.encode("\n</think>")
    params = SamplingParams(thinking_budget=budget, max_tokens=40, logit_bias={closing[-1]: -100})
    reply = llm.chat(ASK, params, enable_thinking=True)
    assert list(reply.token_ids[budget : budget + len(closing)]) == closing
    free = llm.chat(ASK, SamplingParams(max_tokens=40, logit_bias=params.logit_bias), enable_thinking=True)
    assert free.token_ids[:budget] == reply.token_ids[:budget]
    assert closing[-1] not in free.token_ids
    assert reply.usage.reasoning_tokens == budget + len(closing)


def test_a_thought_within_its_budget_and_a_reply_without_one_are_as_ever(llm: LLM) -> None:
    for thinking in (True, False):
        with scripted(llm, "a</think>\n\nb" if thinking else "hello there"):
            bounded = llm.chat(ASK, SamplingParams(thinking_budget=30), enable_thinking=thinking)
            free = llm.chat(ASK, enable_thinking=thinking)
        assert bounded.token_ids == free.token_ids


def test_a_closing_tag_of_several_tokens_ends_a_thought_too(llm: LLM) -> None:
    """Whoever reads the text sees the thought end there: what follows must be held to the form."""
    pieces = [llm.tokenizer.encode(text) for text in ("I ", "</", "thin", "k>")]
    ids = [i for piece in pieces for i in piece]
    assert llm.tokenizer.token_id("</think>") not in ids
    params = drawn(AS_JSON, max_tokens=200)
    [generation] = llm.of_conversation(
        ASK, params, tools=None, tool_choice="auto", parallel_tool_calls=True, documents=None,
        enable_thinking=True, continue_final_message=False, options=None, sanitize=False, template_kwargs={},
    )  # fmt: skip
    guide = generation.sequence._guide
    assert guide is not None
    for token in ids:
        assert guide.limits.allowed is None
        guide.accept(token)
    assert guide.limits.forced == llm.tokenizer.encode("\n\n")[0]


@pytest.mark.parametrize("thinking", [False, True])
def test_what_is_a_foregone_conclusion_takes_no_step_and_changes_nothing(llm: LLM, thinking: bool) -> None:
    """Log probabilities need all logits, so with them each token has its step."""
    schema = {"properties": {"a_long_name_of_a_property": {"type": "boolean"}}, "additionalProperties": False}
    schema |= {"type": "object", "required": ["a_long_name_of_a_property"]}  # type: ignore[dict-item]
    form, fewer = Structure.json_schema(schema), 0
    for seed in range(6):
        steps = []
        replies = []
        for logprobs in (None, 0):
            before = llm.stats().steps
            params = drawn(form, seed, thinking_budget=5, logprobs=logprobs)
            replies.append(llm.chat(ASK, params, enable_thinking=thinking))
            steps.append(llm.stats().steps - before)
        assert replies[0].token_ids == replies[1].token_ids
        assert replies[0].text == replies[1].text
        fewer += steps[0] < 0.7 * steps[1]
    assert fewer == 6


def test_figures_count_tokens_that_took_no_step(tmp_path: Path) -> None:
    llm = LLM(write_tiny(tmp_path, max_position_embeddings=3000), max_batch=4, snapshots=0)
    prompts = [[5] * 40, [7] * 30, [9] * 20]
    form = Structure.regex("a very long text without any choice at all, and then [a-z]{3} ends it")
    replies = llm.generate(
        prompts, [drawn(form, 1), drawn(form, 2), drawn(None, 3, max_tokens=12, ignore_eos=True)]
    )
    stats = llm.stats()
    written = sum(len(reply.token_ids) for reply in replies)
    assert stats.output_tokens == written
    assert stats.prompt_tokens == 90
    assert (sum(stats.first_token.counts), sum(stats.next_token.counts)) == (3, written - 3)
    steps = llm.steps()
    assert sum(step.chosen for step in steps) == written
    computed = sum(step.prompt_tokens + step.decoded for step in steps)
    assert written - 3 * 20 <= computed - 90 < written  # the last tokens of a reply need not be computed


def test_tokens_that_are_no_choice_count_towards_the_limit(llm: LLM) -> None:
    whole = llm.generate("Go:", drawn(Structure.regex("a very long text without any choice at all")))
    assert whole.finish_reason == "stop"
    for most in range(1, len(whole.token_ids)):
        cut = llm.generate(
            "Go:", drawn(Structure.regex("a very long text without any choice at all"), max_tokens=most)
        )
        assert (cut.finish_reason, cut.token_ids) == ("length", whole.token_ids[:most])


@pytest.mark.parametrize("hidden", ["<|box_start|>", "<|quad_end|>"])
def test_tokens_that_the_text_leaves_out_open_no_way_around_the_form(llm: LLM, hidden: str) -> None:
    """The reader sees `</think>` in `</th<hidden>ink>`, so the guide must, too."""
    prompt = llm.template.render(ASK, add_generation_prompt=True, enable_thinking=True)
    for skip in (True, False):
        params = drawn(Structure.regex("red"), skip_special_tokens=skip)
        guide = llm._guiding.prepare(params, in_thought=True)()
        assert guide is not None
        for token in llm.tokenizer.encode(f"hm</th{hidden}ink>"):
            guide.accept(token)
        assert (guide.limits.forced is not None) == skip
    assert prompt.endswith("<think>\n")


def test_a_cut_reply_is_a_beginning_of_the_form(llm: LLM) -> None:
    whole = llm.generate("Go:", drawn(AS_JSON))
    cut = llm.generate("Go:", drawn(AS_JSON, max_tokens=3))
    assert (cut.finish_reason, len(cut.token_ids)) == ("length", 3)
    assert whole.text.startswith(cut.text)


def test_streamed_text_and_log_probabilities_of_a_form_are_those_of_the_whole(llm: LLM) -> None:
    whole = llm.generate("Go:", drawn(AS_JSON, logprobs=3))
    chunks = list(llm.generate("Go:", drawn(AS_JSON, logprobs=3), stream=True))
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert whole.logprobs is not None
    assert [p.token_id for p in whole.logprobs] == list(whole.token_ids)
    free = llm.generate("Go:", SamplingParams(temperature=0, logprobs=3, max_tokens=1))
    assert free.logprobs is not None
    assert free.logprobs[0].top == whole.logprobs[0].top  # of the raw logits, whatever may be chosen


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Structure("poem"), "a structure is one of"),  # type: ignore[arg-type]
        (lambda: Structure.regex(""), "must not be empty"),
        (lambda: Structure("json_object", "{}"), "must have no source"),
        (lambda: Structure.regex(5), "must be a text"),  # type: ignore[arg-type]
        (lambda: Structure.regex("a" * (MAX_SOURCE + 1)), "at most"),
        (lambda: Structure.regex("\ud800"), "surrogate"),
        (lambda: Structure.json_schema("{"), "no JSON"),
        (lambda: Structure.json_schema("[" * 50_000), "no JSON"),
        (lambda: Structure.json_schema("[]"), "must be an object"),
        (lambda: Structure.json_schema({"a": float("nan")}), "no JSON"),
        (lambda: Structure.json_schema({"a": {1, 2}}), "no JSON"),
        (lambda: Structure.regex("a\\"), "escapes nothing"),
        (lambda: Structure.regex("a" * 8193), "a line of 8193 characters"),
        (lambda: Structure.grammar('start: %regex {"multiple_of": 7}'), "multipleOf"),
        (lambda: Structure.grammar('start: %json {"multiple\\u004ff": 7}'), "%json"),
        (lambda: Structure.json_schema({"x-guidance": {"lenient": True}}), "x-guidance"),
        (lambda: Structure.json_schema({"const": 2**53 + 1}), "beyond 2.53"),
        (lambda: Structure.json_schema({"items": [{"minimum": -(10**30)}]}), "beyond 2.53"),
        (lambda: Structure.json_schema({"const": "a" * 4097}), "a string of 4097"),
        (lambda: Structure.json_schema({"properties": {"a" * 4097: {}}}), "a string of 4097"),
        (lambda: Structure.json_schema({"multipleOf": 99999989}), "`multipleOf` is too large"),
        (lambda: Structure.json_schema({"allOf": [{"multipleOf": 997}, {"multipleOf": 991}]}), "too large"),
        (lambda: Structure.json_schema({"x": [{"multipleOf": 50_000}] * 3}), "too large"),
        (lambda: Structure.json_schema({"multipleOf": 123456e-7}), "too large"),
        (lambda: Structure.json_schema({"allOf": [{"pattern": f".*{c}.{{30}}"} for c in "abcd"]}), "`allOf`"),
        (lambda: Structure.grammar("start: /a/ & /b/ & /c/ & /d/"), "two `&` at most"),
        (lambda: Structure.json_schema('{"items":' * 65 + "{}" + "}" * 65), "nested more than"),
        (lambda: SamplingParams(structure="json"), "structure must be a Structure"),  # type: ignore[arg-type]
        (lambda: SamplingParams(structure=AS_JSON, ignore_eos=True), "ignore_eos and structure"),
        (lambda: SamplingParams(structure=AS_JSON, min_tokens=2), "min_tokens and structure"),
        (lambda: SamplingParams(thinking_budget=-1), "thinking_budget"),
        (lambda: SamplingParams(thinking_budget=True), "thinking_budget"),
    ],
    ids=range(32),
)
def test_a_form_that_makes_no_sense_is_refused_at_once(make: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        make()


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        (Structure.json_schema({"not": {}}), "JSON schema cannot be used.*not"),
        (Structure.json_schema({"type": "string", "minLength": 5, "maxLength": 2}), "JSON schema cannot"),
        (Structure.json_schema({"$ref": "http://127.0.0.1:9/x.json"}), "JSON schema cannot"),
        (Structure.json_schema('{"type": "integer", "minimum": 1e400}'), "JSON schema cannot"),
        (Structure.regex("("), "regular expression cannot"),
        (Structure.regex("(" * 3000 + "a" + ")" * 3000), "regular expression cannot"),
        (Structure.grammar("start: ("), "grammar cannot"),
        (Structure.grammar('a: "b"'), "grammar cannot"),
    ],
    ids=range(8),
)
def test_a_form_that_cannot_be_kept_is_refused_before_anything_is_computed(
    llm: LLM, structure: Structure, message: str
) -> None:
    steps = llm.stats().steps
    with pytest.raises(RequestError, match=message) as caught:
        llm.generate("Go:", drawn(structure))
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)
    assert llm.stats().steps == steps


@pytest.mark.parametrize("schema", [{"multipleOf": 0.01}, {"multipleOf": 1000}, {"description": "a" * 9000}])
def test_what_looks_like_too_much_and_is_not_is_kept(llm: LLM, schema: dict[str, Any]) -> None:
    kept = Structure.json_schema({"type": "number", "minimum": 0, "maximum": 5000, **schema})
    reply = llm.generate("Go:", drawn(kept))
    assert reply.finish_reason == "length" or 0 <= float(reply.text) <= 5000


def test_a_long_text_without_choice_holds_nobody_up(llm: LLM) -> None:
    """Foregone tokens are appended a few at a time: whoever shares the steps goes on between them."""
    long = Structure.json_schema({"const": "lorem ipsum dolor " * 100})
    answered = llm.generate("Go:", drawn(long, max_tokens=700), stream=True)
    chunks = [len(chunk.token_ids) for chunk in answered]
    assert max(chunks) <= 20
    assert sum(chunks) > 300


@pytest.mark.parametrize(
    "text",
    [
        "e\u0301\u0327",
        "\u1100\u1161 \u212b",
        "<|im_end|>",
        "see <|endoftext|> here",
        "<tool_call>",
        "</think>",
    ],
)
def test_a_form_may_hold_the_text_of_a_control_token(llm: LLM, text: str) -> None:
    """It is a text like any other there, and no end; nor is anything normalised."""
    schema = {"type": "object", "properties": {text: {"const": text}}, "required": [text]}
    reply = llm.generate("Go:", drawn(Structure.json_schema({**schema, "additionalProperties": False})))
    assert (reply.finish_reason, json.loads(reply.text)) == ("stop", {text: text})


def test_a_grammar_whose_masks_are_slow_ends_its_own_reply(llm: LLM) -> None:
    hard = Structure.grammar('start: e\ne: e e e | e e | /./ | ""')
    ends = dict.fromkeys(llm.vocabulary.end_ids, -100)
    begin = time.thread_time()
    with pytest.raises(RequestError, match=r"too long to tell|items"):
        llm.generate("Go:", drawn(hard, max_tokens=400, logit_bias=ends))
    assert time.thread_time() - begin < 10


def test_many_prompts_of_one_form_compile_it_once(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_ = grammars.Grammars.compile

    def counting(self: Any, parts: Any, what: str) -> Any:
        compiled.append(what)
        return compile_(self, parts, what)

    monkeypatch.setattr(grammars.Grammars, "compile", counting)
    replies = llm.generate(["Go:"] * 40, drawn(AS_JSON))
    assert [violation(reply.text, POINT) for reply in replies] == [None] * 40
    assert compiled == ["JSON schema"]


def test_a_compilation_that_never_ends_blocks_no_other_for_good(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = threading.Event()
    monkeypatch.setattr(grammars, "COMPILE_SECONDS", 0.05)
    monkeypatch.setattr(grammars, "TURN_SECONDS", 0.05)
    hanging = llm._guiding._grammars._in_time
    for _ in range(grammars.COMPILERS):
        with pytest.raises(RequestError, match="not compiled within"):
            hanging(lambda: end.wait(20), "form")  # type: ignore[arg-type,return-value]
    with pytest.raises(QueueFullError, match="try again later"):
        llm.generate("Go:", drawn(AS_JSON))
    end.set()
    monkeypatch.undo()
    assert violation(llm.generate("Go:", drawn(AS_JSON)).text, POINT) is None


def test_a_process_does_not_wait_for_a_compilation_when_it_ends() -> None:
    code = (
        "import time; from qanat.engine.grammars import Grammars; from qanat.engine import grammars;"
        "from qanat.text import Tokenizer; from qanat.checkpoint import load_checkpoint;"
        "grammars.COMPILE_SECONDS = 0.1; t = Tokenizer.from_folder(load_checkpoint('pocket').path);"
        "g = Grammars(t, end_ids=[961], live=992)\n"
        "try: g._in_time(lambda: time.sleep(60), 'form')\n"
        "except Exception as error: print(error)"
    )
    ended = subprocess.run(
        [PYTHON, "-c", code], env=environment(), capture_output=True, text=True, timeout=30
    )
    assert "not compiled within" in ended.stdout, ended.stderr


def test_a_form_that_grows_too_complex_ends_its_own_reply_alone(llm: LLM) -> None:
    """So many ways to go on from the first brace that the parser gives up there."""
    ways = [{"properties": {f"k{i}": {} for i in range(20)}, "required": [f"r{j}"]} for j in range(120)]
    hard = drawn(Structure.json_schema({"anyOf": [{"type": "object", **way} for way in ways]}))
    easy = drawn(AS_JSON, seed=3)
    expected = llm.generate("Go:", easy)
    beside = llm.generate("Go:", easy, stream=True)
    chunks = [next(beside)]
    with pytest.raises(RequestError, match="JSON schema cannot be used: Parser Error"):
        llm.generate("Go:", hard)
    chunks += beside
    assert [token for chunk in chunks for token in chunk.token_ids] == list(expected.token_ids)


def test_a_minimum_of_tokens_gives_way_to_calls_that_have_to_end(llm: LLM) -> None:
    tools = [{"type": "function", "function": {"name": "now", "description": "now", "parameters": {}}}]
    call = "<tool_call>\n<function=now>\n</function>\n</tool_call>"
    with scripted(llm, call):
        reply = llm.chat(
            ASK, SamplingParams(min_tokens=300), tools=tools, parallel_tool_calls=False, enable_thinking=False
        )
    assert (reply.finish_reason, len(reply.tool_calls)) == ("tool_calls", 1)


def test_the_default_minimum_of_a_checkpoint_does_not_contradict_a_form() -> None:
    params = SamplingParams(structure=AS_JSON).with_defaults(SamplingParams(min_tokens=3, temperature=0))
    assert params.min_tokens is None


def test_properties_come_in_the_order_of_the_schema(llm: LLM) -> None:
    names = ["zebra", "ant", "mole"]
    schema = {
        "type": "object",
        "properties": {name: {"type": "boolean"} for name in names},
        "required": names,
        "additionalProperties": False,
    }
    text = llm.generate("Go:", drawn(Structure.json_schema(schema))).text
    assert list(json.loads(text)) == names
