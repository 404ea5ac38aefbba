"""Describing a Python function as a tool: a JSON schema from its type hints and docstring.

The schema equals that of transformers' `get_json_schema`, key order included, because a model sees
it as text (docs/frontend.md section 8).
"""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from qanat.errors import TemplateError
from qanat.text.tool_docstring import Docstring

__all__ = ["function_schema"]

Schema = dict[str, Any]

_SCALARS: dict[type, str] = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    type(None): "null",
}
_CONTAINERS: dict[type, str] = {list: "array", tuple: "array", dict: "object"}
# Classes of optional packages, known by name so that they need not be imported.
_MEDIA = {("PIL.Image", "Image"): "image", ("torch", "Tensor"): "audio"}

_CHOICES = re.compile(r"\(choices:\s*(.*?)\)\s*$", re.IGNORECASE)


def function_schema(function: Callable[..., Any]) -> Schema:
    """The schema `{"type": "function", "function": {...}}` of a function or method.

    Every parameter needs a type hint and a line under `Args:` of a Google-style docstring; a
    `(choices: ["a", "b"])` at the end of that line lists the values allowed. An unhinted first
    parameter called `self` or `cls` is left out. Raises TemplateError naming what is missing or
    cannot be expressed.
    """
    name = getattr(function, "__name__", "operation")
    text = (inspect.getdoc(function) or "").strip()
    if not text:
        raise TemplateError(f"Cannot generate JSON schema for {name} because it has no docstring!")
    doc = Docstring.parse(text)
    parameters, returned = _parameters(function, name)
    for argument, schema in parameters["properties"].items():
        if argument not in doc.arguments:
            raise TemplateError(
                f"Cannot generate JSON schema for {name} because the docstring has no description "
                f"for the argument '{argument}'"
            )
        description = doc.arguments[argument]
        if found := _CHOICES.search(description):
            schema["enum"] = _choices(found[1], name, argument)
            description = description[: found.start()].strip()
        schema["description"] = description
    described: Schema = {"name": name, "description": doc.description, "parameters": parameters}
    if returned is not None:
        if doc.returns is not None:
            returned["description"] = doc.returns
        described["return"] = returned
    return {"type": "function", "function": described}


def _parameters(function: Callable[..., Any], name: str) -> tuple[Schema, Schema | None]:
    """The schema of the parameters, and that of the return value if there is one to describe."""
    try:
        hints = get_type_hints(function)
        signature = inspect.signature(function).parameters
    except Exception as error:  # evaluating a hint given as text runs the text
        raise TemplateError(f"The type hints of function {name} cannot be read: {error}") from error
    receiver = next(iter(signature), None)
    if receiver not in ("self", "cls") or signature[receiver].annotation is not inspect.Parameter.empty:
        receiver = None
    required = []
    for parameter in signature.values():
        if parameter.name == receiver:
            continue
        if parameter.annotation is inspect.Parameter.empty:
            raise TemplateError(f"Argument {parameter.name} is missing a type hint in function {name}")
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
    returned: Schema | None = None
    properties: dict[str, Schema] = {}
    for argument, hint in hints.items():
        if argument == "return":
            try:
                returned = _hint_schema(hint)
            except TemplateError:
                returned = None  # a model never writes the return value, so its hint may be anything
        elif argument != receiver:
            try:
                properties[argument] = _hint_schema(hint)
            except TemplateError as error:
                raise TemplateError(f"Argument {argument} of function {name}: {error}") from error
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema, returned


def _hint_schema(hint: Any) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is None:
        return _bare_schema(hint)
    if origin is Union or origin is types.UnionType:
        return _union_schema(arguments)
    if origin is Literal and arguments:
        if any(type(value) not in _SCALARS for value in arguments):
            raise TemplateError("Only int, float, str, bool and None can be listed in typing.Literal.")
        return _enum_schema(arguments)
    if origin is list:
        return {"type": "array", "items": _hint_schema(arguments[0])} if arguments else {"type": "array"}
    if origin is tuple:
        return _tuple_schema(hint, arguments)
    if origin is dict:
        schema: Schema = {"type": "object"}
        if len(arguments) == 2:
            schema["additionalProperties"] = _hint_schema(arguments[1])
        return schema
    raise TemplateError(f"Couldn't parse this type hint, likely due to a custom class or object: {hint}")


def _bare_schema(hint: Any) -> Schema:
    if hint is Any:
        return {}
    if isinstance(hint, type):
        if issubclass(hint, Enum):
            values = [member.value for member in hint]
            if not values:
                raise TemplateError(f"The Enum {hint.__name__} has no members, so no value could match it.")
            if any(type(value) not in _SCALARS for value in values):
                raise TemplateError(
                    f"The Enum {hint.__name__} has member values that cannot be written as JSON scalars: "
                    f"{values}"
                )
            return _enum_schema(values)
        name = _SCALARS.get(hint) or _CONTAINERS.get(hint) or _MEDIA.get((hint.__module__, hint.__name__))
        if name is not None:
            return {"type": name}
    raise TemplateError(
        f"Couldn't convert the type hint {hint!r} to a JSON schema, likely because it is a custom class "
        "or object. Use int, float, str, bool, Enum classes, Literal, and list, tuple, dict and unions of "
        "these, or pass the JSON schema of the tool instead of the function."
    )


def _enum_schema(values: Sequence[Any]) -> Schema:
    names = list(dict.fromkeys(_SCALARS[type(value)] for value in values))
    return {"type": names[0] if len(names) == 1 else names, "enum": list(values)}


def _union_schema(members: Sequence[Any]) -> Schema:
    """One type as it is; plain types as a sorted list of names; anything richer as `anyOf`."""
    schemas = [_hint_schema(member) for member in members if member is not type(None)]
    if len(schemas) == 1:
        schema = schemas[0]
    elif all(one.keys() == {"type"} and isinstance(one["type"], str) for one in schemas):
        names = sorted({one["type"] for one in schemas})
        schema = {"type": names[0] if len(names) == 1 else names}
    else:
        schema = {"anyOf": schemas}
    if type(None) in members:
        schema["nullable"] = True
    return schema


def _tuple_schema(hint: Any, members: Sequence[Any]) -> Schema:
    if not members:
        return {"type": "array"}
    if len(members) == 1:
        raise TemplateError(f"The type hint {hint} is a tuple of one element; use list[...] or the element.")
    if Ellipsis in members:
        raise TemplateError(
            f"The type hint {hint} has an open length, which tuples cannot express; use list[...]."
        )
    return {"type": "array", "prefixItems": [_hint_schema(member) for member in members]}


def _choices(text: str, name: str, argument: str) -> list[Any]:
    try:
        return [value.strip() if isinstance(value, str) else value for value in json.loads(text)]
    except (ValueError, TypeError, RecursionError) as error:
        raise TemplateError(
            f"The choices of argument '{argument}' of function {name} are no JSON list: {text}"
        ) from error
