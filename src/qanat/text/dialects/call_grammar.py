"""Tool calls in Qwen's tags as a grammar, for models that must not write anything else.

The grammar is text in llguidance's variant of Lark. Parameters come in the order of the schema; a value is
written as `qwen_xml` reads it: strings as they are, up to the closing tag, everything else as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from qanat.errors import GrammarError
from qanat.text.dialects.argument_types import ArgumentTypes

__all__ = ["CALL", "JSON_BLANKS", "call_body", "call_list"]

CALL = "<tool_call>"
_CALL_END = "</tool_call>"
_VALUE_END = "</parameter>"

_SILENT = frozenset({"title", "description", "default", "examples", "deprecated", "$comment", "nullable"})
"""Keywords of a schema that allow and forbid nothing (`nullable` is seen by `ArgumentTypes`)."""
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
    for name, tool in zip(names, tools, strict=True):
        lines += _function(name, tool.get("function", tool), types)
    lines += [f'text[suffix="{_VALUE_END}"]: /(?s:.*)/', ""]
    return "\n".join(lines)


def _function(rule: str, function: Mapping[str, Any], types: ArgumentTypes) -> Iterable[str]:
    """The rules of one function: its name and its parameters."""
    name = function.get("name")
    if not isinstance(name, str) or not name.strip() or _NOT_IN_NAME.search(name):
        raise GrammarError(f"a tool is called {name!r}, which cannot be written in a call")
    schema = function.get("parameters") or {}
    if not isinstance(schema, Mapping):
        raise GrammarError(f"the tool {name!r}: `parameters` must be an object")
    strict = bool(function.get("strict"))
    properties = schema.get("properties") or {}
    required = schema.get("required") or []
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        raise GrammarError(f"the tool {name!r}: `properties` must be an object and `required` a list")
    missing = next((key for key in required if key not in properties), None)
    if missing is not None:
        raise GrammarError(f"the tool {name!r} requires {missing!r}, which is not among its properties")
    parts = [_quoted(name + ">\n")]
    rules = []
    for place, (key, value) in enumerate(properties.items()):
        if not key or key != key.strip() or _NOT_IN_NAME.search(key):
            raise GrammarError(
                f"the tool {name!r} has a parameter {key!r}, which cannot be written in a call"
            )
        own = f"{rule}p{place}"
        parts.append(own if key in required else f"{own}?")
        allowed = types.of(name, key)
        if strict:
            _check_strict(name, key, value, allowed)
        rules.append(
            f"{own}: {_quoted(f'<parameter={key}>' + chr(10))} {_value(value, schema, allowed)} " + '"\\n"'
        )
    return [f"{rule}: {' '.join(parts)}", *rules]


def _value(schema: Any, root: Mapping[str, Any], types: frozenset[str] | None) -> str:
    """A value and its closing tag."""
    end = _quoted("\n" + _VALUE_END)
    listed = _listed(schema)
    if listed is not None:
        return f"({' | '.join(map(_quoted, listed))}) {end}"
    if types is None or "string" in types:
        return "text"
    if types == {"boolean"}:  # as Python writes them, too: templates show them so
        return f'("true" | "false" | "True" | "False") {end}'
    inner = dict(schema) if isinstance(schema, Mapping) else {}
    for name in ("$defs", "definitions"):
        if name in root:
            inner.setdefault(name, root[name])
    inner["x-guidance"] = {"whitespace_pattern": JSON_BLANKS}
    return f"%json {json.dumps(inner)} {end}"


def _listed(schema: Any) -> list[str] | None:
    """The values of an enumeration as a call writes them; None if it is none."""
    if not isinstance(schema, Mapping):
        return None
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list) or not values:
        return None
    written = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return written if not any(_VALUE_END in text for text in written) else None


def _check_strict(name: str, key: str, schema: Any, types: frozenset[str] | None) -> None:
    """Refuse what the grammar would allow more of than the schema does."""
    if types is not None and "string" not in types:
        return
    if _listed(schema) is not None or (isinstance(schema, Mapping) and _plain(schema)):
        return
    raise GrammarError(
        f"the tool {name!r} is strict, but its parameter {key!r} cannot be held to its schema: a string may "
        "have a type, `enum` or `const`, and no other condition"
    )


def _plain(schema: Mapping[str, Any]) -> bool:
    """Whether any text is a value: only a type is asked for, or one of several that need no structure."""
    rest = {key: value for key, value in schema.items() if key not in _SILENT}
    members = rest.pop("anyOf", rest.pop("oneOf", None))
    if members is not None:
        return not rest and all(isinstance(member, Mapping) and _plain(member) for member in members)
    kinds = rest.pop("type", None)
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return not rest and all(kind in ("string", "null", "boolean", "integer", "number") for kind in kinds)


def _quoted(text: str) -> str:
    """A text in a grammar."""
    return json.dumps(text, ensure_ascii=False)
