"""The tools of a chat request and what is asked of their calls; tools are handed on as they came.

A model reads them as text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from qanat.server.fields import FieldError, Fields, any_value, boolean, listed, one_of, text

__all__ = ["AUTO", "ToolFields", "read_tools"]

MAX_TOOLS = 128
_NAME = re.compile(r"[^\s<>]{1,256}")
"""What can be read back out of the tags in which a model writes a call."""


AUTO = "auto"


@dataclass(frozen=True)
class ToolFields:
    """What a request says of tools; the fields are arguments of `LLM.chat`."""

    tools: list[dict[str, Any]] | None
    tool_choice: str | dict[str, Any] = AUTO
    parallel_tool_calls: bool = True


def read_tools(body: Fields) -> ToolFields:
    """The tools that the model is offered (none if `tool_choice` is "none"), and how it may call them.

    Raises:
        FieldError: a field cannot be used, or the fields contradict one another.
    """
    tools = body.take("tools", listed(_tool, most=MAX_TOOLS))
    choice = body.take("tool_choice", _choice)
    parallel = body.take("parallel_tool_calls", boolean)
    body.refuse("functions", "it is the old name of `tools`")
    body.refuse("function_call", "it is the old name of `tool_choice`")
    if choice == "none":
        return ToolFields(None)
    if not tools:
        if choice not in (None, AUTO):
            raise FieldError("`tool_choice` asks for a call, but there are no `tools`", "tool_choice")
        return ToolFields(None)
    names = [tool["function"]["name"] for tool in tools]
    for place, name in enumerate(names):
        if name in names[:place]:
            path = f"tools[{place}].function.name"
            raise FieldError(f"`{path}`: another tool is called {name!r} already", path)
    if isinstance(choice, dict) and choice["function"]["name"] not in names:
        path = "tool_choice.function.name"
        raise FieldError(f"`{path}` is none of the `tools`", path)
    return ToolFields(tools, choice or AUTO, parallel is not False)


def _tool(value: Any, path: str) -> dict[str, Any]:
    fields = Fields(any_value(value, path), path)
    fields.require("type", one_of("function"))
    function = fields.require("function", Fields)
    fields.close()
    function.require("name", _name)
    function.take("description", text)
    function.take("parameters", Fields)
    function.take("strict", boolean)
    function.close()
    return dict(value)


def _name(value: Any, path: str) -> str:
    name = text(value, path)
    if not _NAME.fullmatch(name):
        raise FieldError(f"`{path}` must have 1 to 256 characters, none of them blank, `<` or `>`", path)
    return name


def _choice(value: Any, path: str) -> str | dict[str, Any]:
    """A word, or a function by its name."""
    if not isinstance(value, dict):
        return one_of(AUTO, "none", "required")(value, path)
    fields = Fields(value, path)
    fields.require("type", one_of("function"))
    function = fields.require("function", Fields)
    name = function.require("name", _name)
    function.close()
    fields.close()
    return {"type": "function", "function": {"name": name}}
