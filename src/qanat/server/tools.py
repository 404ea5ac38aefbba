"""The tools of a chat request: checked, and handed on as they came, for a model reads them as text."""

from __future__ import annotations

import re
from typing import Any

from qanat.server.fields import FieldError, Fields, any_value, boolean, listed, one_of, text

__all__ = ["read_tools"]

MAX_TOOLS = 128
_NAME = re.compile(r"[^\s<>]{1,256}")
"""What can be read back out of the tags in which a model writes a call."""


def read_tools(body: Fields) -> list[dict[str, Any]] | None:
    """The tools that the model is offered; None if there are none, or `tool_choice` is "none".

    Raises:
        FieldError: a field cannot be used, or asks for what needs constrained decoding: `tool_choice`
            "required" or a function, `strict`, `parallel_tool_calls` false.
    """
    tools = body.take("tools", listed(_tool, most=MAX_TOOLS))
    choice = body.take("tool_choice", _choice)
    parallel = body.take("parallel_tool_calls", boolean)
    body.refuse("functions", "it is the old name of `tools`")
    body.refuse("function_call", "it is the old name of `tool_choice`")
    if not tools or choice == "none":
        return None
    if parallel is False:
        raise _needs_constraints("parallel_tool_calls", "false")
    names = [tool["function"]["name"] for tool in tools]
    for place, name in enumerate(names):
        if name in names[:place]:
            path = f"tools[{place}].function.name"
            raise FieldError(f"`{path}`: another tool is called {name!r} already", path)
    return tools


def _tool(value: Any, path: str) -> dict[str, Any]:
    fields = Fields(any_value(value, path), path)
    fields.require("type", one_of("function"))
    function = fields.require("function", Fields)
    fields.close()
    function.require("name", _name)
    function.take("description", text)
    function.take("parameters", Fields)
    if function.take("strict", boolean):
        raise _needs_constraints(function.of("strict"), "true")
    function.close()
    return dict(value)


def _name(value: Any, path: str) -> str:
    name = text(value, path)
    if not _NAME.fullmatch(name):
        raise FieldError(f"`{path}` must have 1 to 256 characters, none of them blank, `<` or `>`", path)
    return name


def _choice(value: Any, path: str) -> str:
    """auto or none; what would force a call is refused."""
    if isinstance(value, dict) or value == "required":
        raise _needs_constraints(path, '"required"' if value == "required" else "a function")
    return one_of("auto", "none")(value, path)


def _needs_constraints(path: str, value: str) -> FieldError:
    return FieldError(
        f"`{path}` cannot be {value} yet: nothing forces the form of a reply; leave it out",
        path,
        "unsupported_value",
    )
