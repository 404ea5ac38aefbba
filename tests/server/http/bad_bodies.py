"""Requests whose bodies are wrong, as the bytes that a client sends, each with the answer that is right.

Values are JSON as text, so that what no encoder would write can be said too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from tests.server.bodies import CALL, TOOL

CHAT, TEXT, TOKENIZE, DETOKENIZE, TEMPLATE = (
    "/v1/chat/completions",
    "/v1/completions",
    "/tokenize",
    "/detokenize",
    "/apply-template",
)
NEEDED = {
    CHAT: {"messages": '[{"role": "user", "content": "hi"}]'},
    TEXT: {"prompt": '"hi"'},
    TOKENIZE: {"content": '"hi"'},
    DETOKENIZE: {"tokens": "[1]"},
    TEMPLATE: {"messages": '[{"role": "user", "content": "hi"}]'},
}
"""Of each path that reads a body: the fields without which it answers nothing."""
MOST_BODY = 1_000_000
"""Bytes that the server of these tests takes."""


@dataclass(frozen=True)
class Bad:
    """One request. `word` must be in the message, `param` is the error's."""

    data: bytes
    status: int
    word: str
    param: str | None = None
    code: str | None = None
    drips: bool = False
    """Whether it is sent byte by byte, slowly, and never ends."""


def request(
    method: str, target: str, body: bytes = b"", *lines: str, host: str | None = "localhost"
) -> bytes:
    """A request after which the connection ends. `lines` are further lines of its head."""
    named = [] if host is None else [f"Host: {host}"]
    length = [f"Content-Length: {len(body)}"] if body or method == "POST" else []
    head = [f"{method} {target} HTTP/1.1", *named, *lines, *length, "Connection: close", "", ""]
    return "\r\n".join(head).encode("latin-1", "surrogateescape") + body


def post(path: str, text: str | bytes, word: str, param: str | None = None, code: str | None = None) -> Bad:
    body = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return Bad(request("POST", path, body), 400, word, param, code)


def field(path: str, name: str, value: str, param: str | None = None, more: str = "") -> Bad:
    """A body in which one field has this value, and is named for it."""
    fields = {**NEEDED[path], name: value}
    pairs = [f"{json.dumps(key)}: {text}" for key, text in fields.items()]
    where = param or name
    return post(path, "{" + ", ".join(pairs) + more + "}", where.rpartition(".")[2], where)


def whole(low: int, high: int) -> list[str]:
    """What is no whole number of the range."""
    return [str(low - 1), str(high + 1), "1.5", '"1"', "true", "[]", "{}", "1e300", "9" * 40, "-" + "9" * 39]


def number(low: float, high: float) -> list[str]:
    return [str(low - 0.25), str(high + 0.25), '"1"', "true", "[1]", "{}", "1e300", "-1e300", "9" * 40]


TEXTS = ["5", "1.5", "true", "[]", "{}", '["x"]']
SWITCH = ["0", "1", '"true"', '""', "[]", "{}", "0.5"]
OBJECT = ["5", '"x"', "true", "[]", "[{}]", "0.5"]
LIST = ["5", "{}", "true", "0.5"]
LARGEST = 2**31 - 1

SAMPLING: dict[str, list[str]] = {
    "model": TEXTS,
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "min_p": number(0, 1),
    "top_k": whole(-1, LARGEST),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "repetition_penalty": [*number(0.01, 100), "0"],
    "seed": whole(-(2**63), 2**63 - 1),
    "n": whole(1, 128),
    "max_tokens": whole(1, LARGEST),
    "min_tokens": whole(0, LARGEST),
    "stop": [*LIST, '""', '["a", ""]', json.dumps(["x"] * 17)],
    "stop_token_ids": [*LIST, '"x"', json.dumps([3] * 1025)],
    "ignore_eos": SWITCH,
    "logit_bias": [*OBJECT, '{"five": 1}', '{"-1": 1}', '{"1.0": 1}', '{"": 1}', '{"5": 1, "05": 2}'],
    "stream": SWITCH,
    "stream_options": [*OBJECT, '{"include_usage": true}'],
    "user": TEXTS,
    "safety_identifier": TEXTS,
    "prompt_cache_key": TEXTS,
    "metadata": ["[" * 66 + "]" * 66, '{"a": ' * 66 + "1" + "}" * 66],
    "service_tier": ["5", '"priority"', '""', "[]", '"Auto"'],
    "store": [*SWITCH, "true"],
    "response_format": OBJECT,
    "thinking_budget": whole(0, LARGEST),
}
"""Of the fields that both kinds of request have: what they cannot be."""
OWN: dict[str, dict[str, list[str]]] = {
    CHAT: {
        "messages": [*LIST, "[]", '"hi"', "null", json.dumps([{"role": "user", "content": "x"}] * 8193)],
        "tools": [*LIST, '"x"', json.dumps([TOOL] * 129)],
        "tool_choice": ["5", '"sometimes"', "[]", "true", '""'],
        "parallel_tool_calls": SWITCH,
        "chat_template_kwargs": OBJECT,
        "max_completion_tokens": whole(1, LARGEST),
        "logprobs": SWITCH,
        "top_logprobs": [*whole(0, 20), "1"],
    },
    TEXT: {
        "prompt": [*LIST, "null", "[]", json.dumps(["a"] * 1025)],
        "echo": SWITCH,
        "logprobs": whole(0, 20),
        "best_of": [*whole(1, 128), "2"],
        "suffix": ['"end"', "5", "true", '["x"]'],
    },
    TOKENIZE: {"content": ["5", "null", "true", "[]", "{}", '["x"]'], "parse_special": SWITCH},
    DETOKENIZE: {"tokens": [*LIST, "null", '"1"']},
}
NESTED: list[tuple[str, str, str, str]] = [
    (CHAT, "stop", "[5]", "stop[0]"),
    (CHAT, "stop", '["a", null]', "stop[1]"),
    (CHAT, "stop_token_ids", "[-1]", "stop_token_ids[0]"),
    (CHAT, "stop_token_ids", "[1, 2147483648]", "stop_token_ids[1]"),
    (CHAT, "stop_token_ids", '["1"]', "stop_token_ids[0]"),
    (CHAT, "logit_bias", '{"5": 101}', "logit_bias.5"),
    (CHAT, "logit_bias", '{"5": -100.5}', "logit_bias.5"),
    (CHAT, "logit_bias", '{"5": "1"}', "logit_bias.5"),
    (CHAT, "logit_bias", '{"5": null}', "logit_bias.5"),
    (CHAT, "logit_bias", json.dumps({str(i): 1 for i in range(1025)}), "logit_bias"),
    (CHAT, "chat_template_kwargs", '{"enable_thinking": "yes"}', "chat_template_kwargs.enable_thinking"),
    (CHAT, "chat_template_kwargs", '{"enable_thinking": 1}', "chat_template_kwargs.enable_thinking"),
    (CHAT, "chat_template_kwargs", '{"chat_template": "{{ 1 }}"}', "chat_template_kwargs.chat_template"),
    (CHAT, "chat_template_kwargs", '{"messages": []}', "chat_template_kwargs.messages"),
    (
        CHAT,
        "chat_template_kwargs",
        '{"add_generation_prompt": false}',
        "chat_template_kwargs.add_generation_prompt",
    ),
    (CHAT, "response_format", "{}", "response_format.type"),
    (CHAT, "response_format", '{"type": 5}', "response_format.type"),
    (CHAT, "response_format", '{"type": "poem"}', "response_format.type"),
    (CHAT, "response_format", '{"type": "json_object", "regex": "a"}', "response_format.regex"),
    (CHAT, "response_format", '{"type": "regex"}', "response_format.regex"),
    (CHAT, "response_format", '{"type": "regex", "regex": 5}', "response_format.regex"),
    (CHAT, "response_format", '{"type": "regex", "regex": ""}', "response_format.regex"),
    (CHAT, "response_format", '{"type": "grammar", "grammar": []}', "response_format.grammar"),
    (CHAT, "response_format", '{"type": "grammar", "grammar": ""}', "response_format.grammar"),
    (CHAT, "response_format", '{"type": "json_schema"}', "response_format.json_schema"),
    *(
        (CHAT, "response_format", f'{{"type": "json_schema", "json_schema": {wrapped}}}', place)
        for wrapped, place in (
            ("5", "response_format.json_schema"),
            ("{}", "response_format.json_schema.schema"),
            ('{"schema": null}', "response_format.json_schema.schema"),
            ('{"schema": []}', "response_format.json_schema.schema"),
            ('{"schema": {}, "strict": "yes"}', "response_format.json_schema.strict"),
            ('{"schema": {}, "name": 5}', "response_format.json_schema.name"),
            ('{"schema": {}, "x": 5}', "response_format.json_schema.x"),
            ('{"schema": ' + '{"items": ' * 70 + "{}" + "}" * 70 + "}", "response_format.json_schema.schema"),
        )
    ),
    (CHAT, "tool_choice", "{}", "tool_choice.type"),
    (CHAT, "tool_choice", '{"type": "function"}', "tool_choice.function"),
    (CHAT, "tool_choice", '{"type": "function", "function": {}}', "tool_choice.function.name"),
    (CHAT, "tool_choice", '{"type": "function", "function": {"name": "f"}, "x": 1}', "tool_choice.x"),
    (CHAT, "tool_choice", '"required"', "tool_choice"),
    (CHAT, "response_format", '{"type": "text", "x": 1}', "response_format.x"),
    (TEXT, "prompt", "[true]", "prompt[0]"),
    (TEXT, "prompt", "[1.5]", "prompt[0]"),
    (TEXT, "prompt", "[-1]", "prompt[0]"),
    (TEXT, "prompt", "[2147483648]", "prompt[0]"),
    (TEXT, "prompt", '[1, "a"]', "prompt[1]"),
    (TEXT, "prompt", '["a", 5]', "prompt[1]"),
    (TEXT, "prompt", '["a", null]', "prompt[1]"),
    (TEXT, "prompt", "[[1], []]", "prompt[1]"),
    (TEXT, "prompt", '[[1], ["a"]]', "prompt[1][0]"),
    (TEXT, "prompt", "[[[1]]]", "prompt[0][0]"),
    (TEXT, "prompt", '[{"text": "a"}]', "prompt[0]"),
    (DETOKENIZE, "tokens", "[-1]", "tokens[0]"),
    (DETOKENIZE, "tokens", "[1, 2, 1.5]", "tokens[2]"),
    (DETOKENIZE, "tokens", '["1"]', "tokens[0]"),
    (DETOKENIZE, "tokens", "[[1]]", "tokens[0]"),
    (DETOKENIZE, "tokens", "[null]", "tokens[0]"),
    (DETOKENIZE, "tokens", "[2147483648]", "tokens[0]"),
]
"""Path, field, its value, and the place in it that is wrong."""


def _message(**fields: object) -> str:
    return json.dumps(fields)


def _call(**fields: object) -> str:
    return json.dumps({"role": "assistant", "tool_calls": [{**CALL, **fields}]})


def _function(**fields: object) -> str:
    return json.dumps({"type": "function", "function": {"name": "f", **fields}})


MESSAGES: list[tuple[str, str]] = [
    ("5", ""),
    ('"hi"', ""),
    ("[]", ""),
    ("null", ""),
    ("{}", ".role"),
    (_message(content="hi"), ".role"),
    (_message(role="robot", content="hi"), ".role"),
    (_message(role="User", content="hi"), ".role"),
    (_message(role="", content="hi"), ".role"),
    (_message(role=5, content="hi"), ".role"),
    (_message(role=["user"], content="hi"), ".role"),
    (_message(role="function", name="f", content="hi"), ".role"),
    (_message(role="user"), ".content"),
    (_message(role="user", content=None), ".content"),
    (_message(role="system"), ".content"),
    (_message(role="developer", content=5), ".content"),
    (_message(role="tool", tool_call_id="x"), ".content"),
    (_message(role="user", content=5), ".content"),
    (_message(role="user", content=True), ".content"),
    (_message(role="user", content={}), ".content"),
    (_message(role="user", content=[]), ".content"),
    (_message(role="user", content=[{"type": "text", "text": "x"}] * 4097), ".content"),
    (_message(role="user", content=["hi"]), ".content[0]"),
    (_message(role="user", content=[None]), ".content[0]"),
    (_message(role="user", content=[{}]), ".content[0].type"),
    (_message(role="user", content=[{"type": "text"}]), ".content[0].text"),
    (_message(role="user", content=[{"type": "text", "text": 5}]), ".content[0].text"),
    (_message(role="user", content=[{"type": "text", "text": "a", "x": 1}]), ".content[0].x"),
    (_message(role="user", content=[{"type": "poem", "text": "a"}]), ".content[0].type"),
    (_message(role="user", content=[{"type": 5, "text": "a"}]), ".content[0].type"),
    (
        _message(role="user", content=[{"type": "image_url", "image_url": {"url": "http://x/"}}]),
        ".content[0]",
    ),
    (_message(role="user", content=[{"type": "input_audio", "input_audio": {}}]), ".content[0]"),
    (_message(role="user", content=[{"type": "file", "file": {}}]), ".content[0]"),
    (_message(role="user", content="hi", name=5), ".name"),
    (_message(role="user", content="hi", mood="good"), ".mood"),
    (_message(role="user", content="hi", tool_calls=[]), ".tool_calls"),
    (_message(role="user", content="hi", tool_call_id="x"), ".tool_call_id"),
    (_message(role="system", content="hi", reasoning_content="x"), ".reasoning_content"),
    (_message(role="assistant", content=5), ".content"),
    (_message(role="assistant", content="a", reasoning="x", reasoning_content="y"), ".reasoning"),
    (_message(role="assistant", content="a", reasoning_content=5), ".reasoning_content"),
    (_message(role="assistant", content="a", reasoning=[]), ".reasoning"),
    (_message(role="assistant", content="a", refusal="no"), ".refusal"),
    (_message(role="assistant", content="a", audio={"id": "x"}), ".audio"),
    (_message(role="assistant", content="a", function_call={"name": "f"}), ".function_call"),
    (_message(role="assistant", content="a", tool_calls=5), ".tool_calls"),
    (_message(role="assistant", content="a", tool_calls=[5]), ".tool_calls[0]"),
    (_message(role="assistant", content="a", tool_calls=[CALL] * 129), ".tool_calls"),
    (_call(type="custom"), ".tool_calls[0].type"),
    (_call(id=5), ".tool_calls[0].id"),
    (_call(index=-1), ".tool_calls[0].index"),
    (_call(x=1), ".tool_calls[0].x"),
    (_call(function=None), ".tool_calls[0].function"),
    (_call(function="f"), ".tool_calls[0].function"),
    (_call(function={}), ".tool_calls[0].function.name"),
    (_call(function={"name": 5}), ".tool_calls[0].function.name"),
    (_call(function={"name": "f", "x": 1}), ".tool_calls[0].function.x"),
    *(
        (_call(function={"name": "f", "arguments": value}), ".tool_calls[0].function.arguments")
        for value in (5, True, [], "[]", "{", "5", "null", '{"a": NaN}', '{"a": 1} x', '{"a": "\\ud800"}')
    ),
    (
        _call(function={"name": "f", "arguments": '{"a":' * 99 + "1" + "}" * 99}),
        ".tool_calls[0].function.arguments",
    ),
    (_message(role="tool", content="x", tool_call_id="nobody"), ".tool_call_id"),
    (_message(role="tool", content="x", tool_call_id=5), ".tool_call_id"),
]
"""A message, and the place in it that is wrong."""
TOOLS: list[tuple[str, str]] = [
    ("5", ""),
    ("{}", ".type"),
    ('{"type": "custom"}', ".type"),
    ('{"type": "web_search"}', ".type"),
    ('{"type": "function"}', ".function"),
    ('{"type": "function", "function": "f"}', ".function"),
    ('{"type": "function", "function": {}}', ".function.name"),
    ('{"type": "function", "function": {"name": "f"}, "x": 1}', ".x"),
    (_function(name=5), ".function.name"),
    (_function(name=""), ".function.name"),
    (_function(name="a b"), ".function.name"),
    (_function(name="a>b"), ".function.name"),
    (_function(name="f" * 257), ".function.name"),
    (_function(description=5), ".function.description"),
    (_function(parameters="{}"), ".function.parameters"),
    (_function(parameters=[]), ".function.parameters"),
    (_function(strict="yes"), ".function.strict"),
    (_function(returns={}), ".function.returns"),
    (_function(parameters=json.loads("[" * 70 + "]" * 70)), ""),
]
BROKEN: list[tuple[bytes, str]] = [
    (b"", "JSON"),
    (b" \n", "JSON"),
    *(
        (text, "JSON")
        for text in (
            *(
                b"{",
                b"}",
                b"[",
                b'{"a"',
                b'{"a":',
                b'{"a": 1',
                b'{"a": "',
                b'{"a": "\\',
                b"nul",
                b"undefined",
            ),
            *(b"{'a': 1}", b"{a: 1}", b'{"a": 1,}', b"[1,]", b'{"a": 1} {"a": 1}', b'{"a": 1} x', b"{,}"),
            *(
                b'{"a": 01}',
                b'{"a": +1}',
                b'{"a": .5}',
                b'{"a": 1.}',
                b'{"a": 0x10}',
                b'{"a": 1_0}',
                b'{"a": --1}',
            ),
            *(
                b'{"a": "\n"}',
                b'{"a": "\x00"}',
                b'{"a": "\\x41"}',
                b'{"a": "\\u12"}',
                b'/**/ {"a": 1}',
                b"a=1&b=2",
            ),
            *(b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n', b"<a>1</a>"),
        )
    ),
    *((text, "is not JSON") for text in (b'{"a": NaN}', b'{"a": Infinity}', b'{"a": -Infinity}')),
    *((b'{"a": %b}' % text, "too large") for text in (b"1e999", b"-1e999")),
    *((b'{"a": %b}' % (b"9" * size), "digits") for size in (41, 5000, 100_000)),
    *(
        (text, "appears twice")
        for text in (b'{"a": 1, "a": 1}', b'{"a": {"b": 1, "b": 2}}', b'{"a": 1, "\\u0061": 2}')
    ),
    *((b'{"a": "%b"}' % text, "half a character") for text in (b"\\ud800", b"\\udc00", b"\\udc00\\ud800")),
    (b'{"\\ud800": 1}', "half a character"),
    *(
        (text, "UTF-8")
        for text in (
            *(b"\xff", b"\xfe\xff\x00{", '{"a": 1}'.encode("utf-16"), b'{"a": "\xe4"}', b'{"a": "\xc0\xaf"}'),
            *(
                b'{"a": "\xed\xa0\x80"}',
                b'{"a": "\xf4\x90\x80\x80"}',
                b'{"a": "\xe2\x82"}',
                b"\x1f\x8b\x08\x00\x00",
            ),
        )
    ),
    *((b'{"a": ' + b"[" * depth + b"]" * depth + b"}", "nested") for depth in (5000, 100_000)),
    *((text, "must be an object") for text in (b"null", b"true", b"5", b'"x"', b"[]", b"[{}]")),
]
"""Bodies that are no JSON object, and a word for why."""
UNKNOWN = [
    "messagess",
    "",
    "Temperature",
    "temperature ",
    "reasoning_effort",
    "modalities",
    "__proto__",
    "a.b",
    "\ufb01",
    "x" * 500,
]


def fields() -> Iterator[Bad]:
    for path in (CHAT, TEXT):
        for name, values in {**SAMPLING, **OWN[path]}.items():
            for value in values:
                yield field(path, name, value)
    for path in (TOKENIZE, DETOKENIZE):
        for name, values in OWN[path].items():
            for value in values:
                yield field(path, name, value)
    for path, name, value, place in NESTED:
        yield field(path, name, value, place)
    for value in ('{"include_usage": 1}', '{"include_usage": true, "x": 1}'):
        name = "include_usage" if "x" not in value else "x"
        yield field(CHAT, "stream_options", value, f"stream_options.{name}", ', "stream": true')
    yield field(CHAT, "max_tokens", "5", "max_completion_tokens", ', "max_completion_tokens": 6')
    yield field(TEXT, "echo", "true", "logprobs", ', "logprobs": 1, "stream": true')
    yield field(TEXT, "prompt", json.dumps(["a"] * 1024), "n", ', "n": 5')


def messages() -> Iterator[Bad]:
    for path in (CHAT, TEMPLATE):
        for message, place in MESSAGES:
            where = f"messages[1]{place}"
            yield field(path, "messages", '[{"role": "user", "content": "hi"}, ' + message + "]", where)
        for tool, place in TOOLS:
            yield field(path, "tools", f"[{tool}]", f"tools[0]{place}")
        twice = json.dumps([TOOL, TOOL])
        yield field(path, "tools", twice, "tools[1].function.name")


def broken() -> Iterator[Bad]:
    for path, needed in NEEDED.items():
        for text, word in BROKEN:
            yield post(path, text, word)
        for name in needed:
            yield post(path, "{}", name, name, "missing_required_parameter")
            yield post(path, json.dumps({name: None}), name, name, "missing_required_parameter")
        for name in UNKNOWN:
            pairs = [f"{json.dumps(key)}: {value}" for key, value in {**needed, name: "1"}.items()]
            yield Bad(
                request("POST", path, ("{" + ", ".join(pairs) + "}").encode()),
                400,
                "unknown field",
                code="unknown_parameter",
            )


def meaning() -> Iterator[Bad]:
    """Fields that are good one by one; what the model's own size or the other fields make wrong."""
    words = json.dumps([{"role": "user", "content": "fox " * 9000}])
    for stream in ("true", "false"):
        more = f', "stream": {stream}'
        for path, name, value in ((CHAT, "messages", words), (TEXT, "prompt", json.dumps("fox " * 9000))):
            body = f'{{"{name}": {value}{more}}}'
            yield post(path, body, "tokens", code="context_length_exceeded")
        yield post(TEXT, f'{{"prompt": [999999]{more}}}', "999999")
        yield post(TEXT, f'{{"prompt": ""{more}}}', "empty")
        for name in ("logit_bias", "stop_token_ids"):
            value = '{"999999": 1}' if name == "logit_bias" else "[999999]"
            pairs = f'"messages": [{{"role": "user", "content": "hi"}}], "{name}": {value}'
            yield post(CHAT, f"{{{pairs}{more}}}", "999999")
        pairs = '"messages": [{"role": "user", "content": "hi"}], "min_tokens": 5, "max_tokens": 4'
        yield post(CHAT, f"{{{pairs}{more}}}", "min_tokens")
        for form in (
            '{"type": "regex", "regex": "("}',
            '{"type": "grammar", "grammar": "no grammar at all"}',
            '{"type": "json_schema", "json_schema": {"schema": {"not": {}}}}',
            '{"type": "json_schema", "json_schema": {"schema": {"type": "poem"}}}',
            '{"type": "json_schema", "json_schema": {"schema": {"$ref": "http://evil.example/x"}}}',
        ):
            pairs = f'"messages": [{{"role": "user", "content": "hi"}}], "response_format": {form}'
            yield post(CHAT, f"{{{pairs}{more}}}", "", code="invalid_grammar")
        pairs = '"messages": [{"role": "user", "content": "hi"}], "ignore_eos": true'
        yield post(CHAT, f'{{{pairs}, "response_format": {{"type": "json_object"}}{more}}}', "ignore_eos")
        elsewhere = '{"type": "function", "function": {"name": "f"}}'
        pairs = f'"messages": [{{"role": "user", "content": "hi"}}], "tools": [{json.dumps(TOOL)}]'
        yield post(CHAT, f'{{{pairs}, "tool_choice": {elsewhere}{more}}}', "tool_choice.function.name")
    yield post(DETOKENIZE, '{"tokens": [999999]}', "999999")
    for path, name in ((CHAT, "messages"), (TEXT, "prompt"), (TEMPLATE, "messages")):
        for model in ("gpt-4o", "", "POCKET", "../pocket", "x" * 5000, "\u0000"):
            text = f'{{"{name}": {NEEDED[path][name]}, "model": {json.dumps(model)}}}'
            yield Bad(request("POST", path, text.encode()), 404, "no model", "model", "model_not_found")
