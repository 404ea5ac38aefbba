"""The messages of a chat request, checked and put into the form that chat templates read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from qanat.server.fields import FieldError, Fields, Reader, any_value, integer, listed, one_of, text

__all__ = ["MAX_MESSAGES", "read_messages"]

Message = dict[str, Any]

MAX_MESSAGES = 8192
MAX_PARTS = 4096
MAX_CALLS = 128


def read_messages(value: Any, path: str) -> list[Message]:
    """A conversation as chat templates read it.

    `developer` is another word for `system`. A call's arguments come as the text of a JSON object.
    Answers of tools are put into the order of the calls: templates show no ids, so order is all a model sees.
    A `name` is handed to the template, which decides whether the model sees it.
    """
    return _in_order(listed(_message, least=1, most=MAX_MESSAGES)(value, path), path)


def _message(value: Any, path: str) -> Message:
    fields = Fields(value, path)
    role = fields.require("role", one_of(*_ROLES))
    message = {"role": role, "name": fields.take("name", text), **_ROLES[role](fields)}
    fields.close()
    return {name: item for name, item in message.items() if item is not None}


def _spoken(fields: Fields) -> Message:
    return {"content": fields.require("content", _content)}


def _instructions(fields: Fields) -> Message:
    return {"role": "system", **_spoken(fields)}


def _tool_answer(fields: Fields) -> Message:
    return {"tool_call_id": fields.take("tool_call_id", text), **_spoken(fields)}


def _assistant(fields: Fields) -> Message:
    """What a model said. Its content is null where it only thought or called tools."""
    thoughts = [fields.take(name, text) for name in ("reasoning_content", "reasoning")]
    if None not in thoughts and thoughts[0] != thoughts[1]:
        path = fields.of("reasoning")
        raise FieldError(f"`{path}` differs from `{fields.of('reasoning_content')}`: give one of them", path)
    for name in ("refusal", "audio", "function_call", "annotations"):
        fields.refuse(name, "only text, thoughts and `tool_calls` of earlier answers can be given back")
    return {
        "content": fields.take("content", _content) or "",
        "reasoning_content": next((thought for thought in thoughts if thought is not None), None),
        "tool_calls": fields.take("tool_calls", listed(_call, most=MAX_CALLS)) or None,
    }


_ROLES: dict[str, Callable[[Fields], Message]] = {
    "system": _instructions,
    "developer": _instructions,
    "user": _spoken,
    "assistant": _assistant,
    "tool": _tool_answer,
}


def _content(value: Any, path: str) -> str | list[Message]:
    """A string, or parts of text."""
    return text(value, path) if isinstance(value, str) else _parts(value, path)


def _part(value: Any, path: str) -> Message:
    fields = Fields(value, path)
    kind = fields.require("type", text)
    if kind in ("image_url", "input_image", "image", "video_url", "video", "input_audio", "file"):
        raise FieldError(f"`{path}`: only text can be read yet, no {kind}", path, "unsupported_content_type")
    one_of("text")(kind, fields.of("type"))
    part = {"type": "text", "text": fields.require("text", text)}
    fields.close()
    return part


_parts: Reader[list[Message]] = listed(_part, least=1, most=MAX_PARTS)


def _call(value: Any, path: str) -> Message:
    fields = Fields(value, path)
    identity = fields.take("id", text)
    fields.take("type", one_of("function"))
    fields.take(
        "index", integer(0, MAX_CALLS)
    )  # a leftover of streaming: the place in the list says the same
    function = fields.require("function", Fields)
    call = {
        "type": "function",
        "function": {
            "name": function.require("name", text),
            "arguments": function.take("arguments", _arguments) or {},
        },
    }
    function.close()
    fields.close()
    return call if identity is None else {"id": identity, **call}


def _arguments(value: Any, path: str) -> Message:
    """An object, or its JSON text; no text at all means no arguments."""
    if isinstance(value, str):
        if not value.strip():
            return {}
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):  # ValueError: also a number of thousands of digits
            value = None
    if not isinstance(value, dict):
        raise FieldError(f"`{path}` must be the JSON text of an object", path)
    return dict(any_value(value, path))


def _in_order(messages: list[Message], path: str) -> list[Message]:
    """Each run of tool answers in the order of the calls before it; an answer to no call is refused."""
    ordered: list[Message] = []
    calls: list[str] = []
    answers: dict[str, Message] = {}
    for place, message in enumerate(messages):
        identity = message.get("tool_call_id")
        if identity is not None:
            where = f"{path}[{place}].tool_call_id"
            if identity not in calls:
                raise FieldError(f"`{where}` answers no call of the message before it", where)
            if identity in answers:
                raise FieldError(f"`{where}` answers a call that has its answer already", where)
            answers[identity] = message
            continue
        ordered += [answers[call] for call in calls if call in answers]
        answers = {}
        ordered.append(message)
        if message["role"] != "tool":
            calls = list(dict.fromkeys(call["id"] for call in message.get("tool_calls", ()) if "id" in call))
    return ordered + [answers[call] for call in calls if call in answers]
