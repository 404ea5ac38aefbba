"""What a template may see: messages, tools and documents rebuilt from plain values.

A rich object (an image, an array, a message class) brings methods that a sandbox knows nothing
about, so nothing but dictionaries, lists, text, numbers, booleans and None reaches a template.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from qanat.errors import TemplateError
from qanat.text.tool_schema import function_schema

__all__ = ["REASONING_FIELDS", "check_documents", "plain", "plain_messages", "tool_schemas"]

REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")  # one thing under three names


def plain(value: Any) -> Any:
    """A copy of `value` made of plain types; an object of any other kind becomes `<its type>`."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    # Subclasses (enumerations, numpy's float64) may override anything: ask the base class itself.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if _is_numpy_scalar(value):
        return plain(value.item())
    fields = _object_fields(value)
    return f"<{type(value).__name__}>" if fields is None else plain(fields)


def plain_messages(conversation: Any) -> list[dict[Any, Any]]:
    """The messages of one conversation as the template will see them.

    Keys whose value is None are dropped at the top level of each message, and reasoning is copied
    to the names under which templates look for it. Raises TemplateError for what is no conversation.
    """
    messages = getattr(conversation, "messages", conversation)
    if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
        raise TemplateError(
            f"A conversation is a list of messages such as {{'role': 'user', 'content': 'Hello'}}, "
            f"but got {_short(messages)}."
        )
    messages = list(messages)
    if not messages:
        raise TemplateError(
            "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
    if isinstance(messages[0], list | tuple) or hasattr(messages[0], "messages"):
        raise TemplateError("Render one conversation at a time: the first message is itself a conversation.")
    try:
        return [_aliased(_message(message)) for message in messages]
    except RecursionError as error:
        raise TemplateError("The conversation is nested too deeply.") from error


def _message(message: Any) -> dict[Any, Any]:
    fields = message if isinstance(message, Mapping) else _object_fields(message)
    if not isinstance(fields, Mapping):
        raise TemplateError(
            f"Chat messages should be dicts, dataclasses or pydantic models, but got {_short(message)}."
        )
    return {plain(key): plain(value) for key, value in fields.items() if value is not None}


def _aliased(message: dict[Any, Any]) -> dict[Any, Any]:
    for name in REASONING_FIELDS:
        if (reasoning := message.get(name)) is not None:
            return {"thinking": reasoning, **message, "reasoning_content": reasoning}
    return message


def tool_schemas(tools: Any, mark: Callable[[Any], Any]) -> list[Any] | None:
    """Tools as JSON schemas: dictionaries as they are but for `mark`, functions and methods described.

    A function's docstring is the program's own text, so `mark` leaves it alone. Raises
    TemplateError for anything else, and for functions that cannot be described.
    """
    if tools is None:
        return None
    return [_tool_schema(tool, mark) for tool in _items(tools, "Tools")]


def _tool_schema(tool: Any, mark: Callable[[Any], Any]) -> Any:
    if isinstance(tool, dict):
        return mark(plain(tool))
    if inspect.isfunction(tool) or inspect.ismethod(tool):
        return plain(function_schema(tool))
    raise TemplateError(
        "Tools should either be a JSON schema, or a callable function with type hints and a docstring "
        f"suitable for auto-conversion to a schema, but got {_short(tool)}."
    )


def check_documents(documents: Any) -> list[Any] | None:
    """Documents as plain data; raises TemplateError unless every one is a dictionary."""
    if documents is None:
        return None
    items = _items(documents, "Documents")
    for document in items:
        if not isinstance(document, dict):
            raise TemplateError(
                "Documents should be a list of dicts with 'title' and 'text' keys, "
                f"but got {_short(document)}."
            )
    return [plain(document) for document in items]


def _items(values: Any, what: str) -> list[Any]:
    if not isinstance(values, Iterable):
        raise TemplateError(f"{what} should be a list, but got {_short(values)}.")
    return list(values)


def _object_fields(value: Any) -> Mapping[str, Any] | None:
    """The fields of a dataclass or pydantic model; None for any other object."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if not isinstance(value, type) and callable(dump := getattr(value, "model_dump", None)):
        dumped = dump()
        return dumped if isinstance(dumped, Mapping) else None
    return None


def _is_numpy_scalar(value: Any) -> bool:
    numpy = sys.modules.get("numpy")  # a numpy value cannot exist before numpy is imported
    return numpy is not None and isinstance(value, numpy.generic)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
