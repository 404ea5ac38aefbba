"""Tool calls in Qwen's tags as a grammar, for models that must not write anything else.

The grammar is text in llguidance's variant of Lark. Parameters come in the order of the schema; a value is
written as `qwen_xml` reads it: strings as they are, up to the closing tag, everything else as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from qanat.errors import GrammarError
from qanat.text.dialects.argument_forms import ArgumentForms, Form, Literal, Pattern, Text
from qanat.text.dialects.argument_types import ArgumentTypes
from qanat.text.dialects.embedded_json import VALUE_END
from qanat.text.dialects.schema_bounds import check_bounds

__all__ = ["CALL", "JSON_BLANKS", "call_body", "call_list"]

CALL = "<tool_call>"
_CALL_END = "</tool_call>"

_MOST_NAME = 256
"""Characters of a name: whoever reads a call looks no further for its end."""
MOST_SCHEMA = 1 << 16
"""Characters of the schema of one tool."""
MOST_GRAMMAR = 1 << 20
"""Characters of the grammar of all tools; definitions stand in it once for each parameter with JSON."""
_PARAMETERS = frozenset({"type", "properties", "required", "additionalProperties", "$defs", "definitions"})
_SILENT = frozenset({"title", "description", "$schema", "$id", "$comment", "examples", "default", "strict"})
JSON_BLANKS = r"( |\n {0,32})?"
"""What may stand between the parts of JSON: a space, or a new line and its indentation. With no more than
that a model cannot stay there for good."""

_NOT_IN_NAME = re.compile(r"[<>\n]")

Tag = Callable[[str], str]


def call_body(tools: Sequence[dict[str, Any]], tag: Tag) -> str:
    """The grammar of one call, without its opening tag.

    Args:
        tools: what may be called, as JSON schemas.
        tag: how the grammar names a tag of a call: as a token, or as its text in quotes.

    Raises:
        GrammarError: a tool cannot be put into a grammar.
    """
    return "start: body\n" + _body(tools, tag)


def call_list(tools: Sequence[dict[str, Any]], tag: Tag, *, many: bool, instead: str | None = None) -> str:
    """The grammar of a reply that calls tools.

    Args:
        tools, tag: as in `call_body`.
        many: whether more than one call may be made.
        instead: the name of another grammar that the reply may follow instead of calling anything.

    Raises:
        GrammarError: a tool cannot be put into a grammar.
    """
    calls = 'call ("\\n" call)*' if many else "call"
    start = calls if instead is None else f"{calls} | @{instead}"
    return f"start: {start}\ncall: {tag(CALL)} body\n" + _body(tools, tag)


def _body(tools: Sequence[dict[str, Any]], tag: Tag) -> str:
    types = ArgumentTypes(tools)
    names = [f"f{place}" for place in range(len(tools))]
    lines = [f'body: "\\n<function=" ({" | ".join(names)}) "</function>\\n" {tag(_CALL_END)}']
    size = 0
    for name, tool in zip(names, tools, strict=True):
        for line in _function(name, tool.get("function", tool), types):
            lines.append(line)
            size += len(line)
            if size > MOST_GRAMMAR:
                raise GrammarError("the schemas of the tools are too large together: offer fewer")
    return "\n".join([*lines, ""])


def _function(rule: str, function: Mapping[str, Any], types: ArgumentTypes) -> Iterator[str]:
    """The rules of one function: its name and its parameters."""
    name = function.get("name")
    if not isinstance(name, str) or not _writable(name):
        raise GrammarError(f"a tool is called {_shown(name)}, which cannot be written in a call")
    try:
        yield from _parameters(rule, name, function, types)
    except GrammarError as error:
        raise GrammarError(f"the tool {_shown(name)}: {error}") from None


def _parameters(rule: str, name: str, function: Mapping[str, Any], types: ArgumentTypes) -> Iterator[str]:
    schema = function.get("parameters") or {}
    if not isinstance(schema, Mapping):
        raise GrammarError("`parameters` must be an object")
    try:
        size = len(json.dumps(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise GrammarError(f"its `parameters` are no JSON: {error}") from None
    if size > MOST_SCHEMA:
        raise GrammarError(f"its `parameters` have {size} characters of JSON; {MOST_SCHEMA} are the most")
    check_bounds(schema)
    unkept = next((key for key in schema if key not in _PARAMETERS | _SILENT), None)
    if unkept is not None:
        raise GrammarError(f"calls cannot be held to {_shown(unkept)} of its `parameters`")
    properties, required = schema.get("properties") or {}, schema.get("required") or []
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        raise GrammarError("`properties` must be an object and `required` a list")
    missing = next((key for key in required if not isinstance(key, str) or key not in properties), None)
    if missing is not None:
        raise GrammarError(f"{_shown(missing)} is required, but is not among its properties")
    parts = [_quoted(name + ">\n")]
    written = ArgumentForms(schema, strict=bool(function.get("strict")))
    for place, (key, value) in enumerate(properties.items()):
        if not _writable(key):
            raise GrammarError(f"it has a parameter {_shown(key)}, which cannot be written in a call")
        own = f"{rule}p{place}"
        parts.append(own if key in required else f"{own}?")
        try:
            forms = written.of(value, types.of(name, key))
        except GrammarError as error:
            raise GrammarError(f"its parameter {_shown(key)}: {error}") from None
        yield from _argument(own, key, forms)
    yield f"{rule}: {' '.join(parts)}"


def _argument(rule: str, key: str, forms: Sequence[Form]) -> Iterable[str]:
    """The rules of one parameter: its tags, and the ways in which its value is written."""
    ways: list[str] = []
    rules: list[str] = []
    for place, form in enumerate(forms):
        if isinstance(form, Text):
            own = f"{rule}t{place}"
            ways.append(own)
            rules.append(f'{own}[suffix="{VALUE_END}"]: /{_any_text(form)}/')
            continue
        inner = (
            _quoted(form.text)
            if isinstance(form, Literal)
            else f"/{form.source}/"
            if isinstance(form, Pattern)
            else "%json " + json.dumps({**form.schema, "x-guidance": {"whitespace_pattern": JSON_BLANKS}})
        )
        ways.append(f"{inner} {_quoted(chr(10) + VALUE_END)}")
    opening = _quoted(f"<parameter={key}>\n")
    return [f'{rule}: {opening} ({" | ".join(ways)}) "\\n"', *rules]


def _any_text(form: Text) -> str:
    """An expression for text and the new line behind it; one without bounds may leave that out."""
    if form == Text():
        return "(?s:.*)"
    most = "" if form.most is None else form.most
    return f"(?s:.{{{form.least},{most}}}\\n)"


def _writable(name: str) -> bool:
    return bool(name) and name == name.strip() and len(name) <= _MOST_NAME and not _NOT_IN_NAME.search(name)


def _quoted(text: str) -> str:
    """A text in a grammar."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
