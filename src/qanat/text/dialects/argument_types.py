"""Which JSON types a tool's schema allows for an argument.

Only the type is asked for, not whether a value is valid. Schemas come from clients: odd ones mean
"anything", and references cost no more than the schema is long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["ArgumentTypes"]

Types = frozenset[str] | None  # None: the schema does not say

_TYPES = frozenset({"null", "boolean", "integer", "number", "array", "object", "string"})
_MAX_DEPTH = 64  # schemas inside schemas


class ArgumentTypes:
    """The types that the tools of a request allow for their parameters."""

    def __init__(self, tools: Sequence[Any]) -> None:
        self._functions: dict[str, _Parameters] = {}
        for tool in tools:
            function = tool.get("function", tool) if isinstance(tool, Mapping) else None
            if isinstance(function, Mapping) and isinstance(name := function.get("name"), str):
                self._functions[name] = _Parameters(function.get("parameters"))

    def of(self, function: str, parameter: str) -> frozenset[str] | None:
        """The types allowed; None where the schema says nothing, or there is no such schema."""
        parameters = self._functions.get(function)
        return None if parameters is None else parameters.of(parameter)


class _Parameters:
    """The schema of one function's parameters."""

    def __init__(self, schema: Any) -> None:
        self._root: Mapping[Any, Any] = schema if isinstance(schema, Mapping) else {}
        properties = self._root.get("properties")
        self._properties: Mapping[Any, Any] = properties if isinstance(properties, Mapping) else {}
        self._known: dict[str, Types] = {}  # of properties, once asked for
        self._targets: dict[str, Types] = {}  # of references; None while they are being followed

    def of(self, parameter: str) -> Types:
        if parameter not in self._properties:
            return self._allowed(self._root.get("additionalProperties"))
        if parameter not in self._known:
            self._known[parameter] = self._allowed(self._properties[parameter])
        return self._known[parameter]

    def _allowed(self, schema: Any, depth: int = 0) -> Types:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return None
        types = self._stated(schema, depth)
        return types | {"null"} if types is not None and schema.get("nullable") is True else types

    def _stated(self, schema: Mapping[Any, Any], depth: int) -> Types:
        if "type" in schema:
            names = schema["type"] if isinstance(schema["type"], list | tuple) else [schema["type"]]
            return frozenset(name for name in names if isinstance(name, str) and name in _TYPES) or None
        if isinstance(values := schema.get("enum"), list | tuple) and values:
            return frozenset(map(_type_of, values))
        if "const" in schema:
            return frozenset({_type_of(schema["const"])})
        if isinstance(reference := schema.get("$ref"), str):
            return self._target(reference, depth)
        for key in ("anyOf", "oneOf"):
            if isinstance(members := schema.get(key), list | tuple) and members:
                either = [self._allowed(member, depth + 1) for member in members]
                stated = [types for types in either if types is not None]
                return frozenset().union(*stated) if len(stated) == len(either) else None
        if isinstance(members := schema.get("allOf"), list | tuple):
            stated = [types for member in members if (types := self._allowed(member, depth + 1)) is not None]
            return frozenset.intersection(*stated) or None if stated else None
        return None

    def _target(self, reference: str, depth: int) -> Types:
        """What a reference inside the function's own schema (`#/$defs/Name`) allows."""
        if reference not in self._targets:
            self._targets[reference] = None
            place: Any = self._root if reference.startswith("#") else None
            for step in reference.split("/")[1:]:
                key = step.replace("~1", "/").replace("~0", "~")
                place = place.get(key) if isinstance(place, Mapping) else None
            self._targets[reference] = self._allowed(place, depth + 1)
        return self._targets[reference]


def _type_of(value: Any) -> str:
    if isinstance(value, bool):  # before int, which it also is
        return "boolean"
    kinds = {type(None): "null", int: "integer", float: "number", list: "array", dict: "object"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "string")
