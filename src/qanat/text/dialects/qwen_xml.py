"""Tool calls in Qwen's tags, read as they are written.

    <tool_call>
    <function=NAME>
    <parameter=KEY>
    VALUE
    </parameter>
    </function>
    </tool_call>

One newline on each side of a value is format; other white space between tags is ignored. Anything
else that is out of place makes the text content, from its `<tool_call>` on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any

from qanat.text.dialects.argument_types import ArgumentTypes
from qanat.text.dialects.coercion import argument_json, json_string
from qanat.text.dialects.deltas import ReplyDelta, ToolCall
from qanat.text.dialects.holding import HeldBlanks, held_length

__all__ = ["QwenXmlParser"]

_CALL, _CALL_END = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_END = "<function=", "</function>"
_PARAMETER, _PARAMETER_END = "<parameter=", "</parameter>"
_VALUE_ENDS = ("\n" + _PARAMETER_END, _PARAMETER_END)
_STRING = frozenset({"string"})
_BLANKS = re.compile(r"\s*")
_NOT_IN_NAME = re.compile(r"[<\n]")
_MAX_NAME = 256  # characters of a function's or parameter's name; bounds what is held back


class _Place(Enum):
    """Where in the format the next character stands."""

    CONTENT = auto()
    BEFORE_FUNCTION = auto()
    FUNCTION_NAME = auto()
    BEFORE_PARAMETER = auto()
    PARAMETER_NAME = auto()
    VALUE = auto()
    AFTER_FUNCTION = auto()


# Where white space may stand: the tags that may follow, and where they lead.
_NEXT = {
    _Place.BEFORE_FUNCTION: {_FUNCTION: _Place.FUNCTION_NAME},
    _Place.BEFORE_PARAMETER: {_PARAMETER: _Place.PARAMETER_NAME, _FUNCTION_END: _Place.AFTER_FUNCTION},
    _Place.AFTER_FUNCTION: {_CALL_END: _Place.CONTENT},
}


class QwenXmlParser:
    """Parts text into content and tool calls.

    Args:
        tools: the request's tools, for the types of arguments.
        new_call_id: makes the id of each call.
        live_arguments: False: a call's deltas go out once it is complete, so that a call cut off
            half-way leaves no trace but content. True: they go out as the model writes; one that
            breaks off then stays incomplete in the stream, and its text follows as content.
    """

    def __init__(
        self, tools: Sequence[Any], *, new_call_id: Callable[[], str], live_arguments: bool = False
    ) -> None:
        self.calls: list[ToolCall] = []
        self._types = ArgumentTypes(tools)
        self._new_call_id = new_call_id
        self._live = live_arguments
        self._place = _Place.CONTENT
        self._text = ""  # not yet consumed from `_at` on
        self._at = 0
        self._out: list[ReplyDelta] = []
        self._blanks = HeldBlanks()  # white space before a call is dropped with it
        self._after_call = False  # nothing but white space has followed a call
        self._raw: list[str] = []  # the current call as it was written
        self._next_index = 0
        self._call_out: list[ReplyDelta] = []
        self._arguments: list[str] = []
        self._name = self._call_id = ""
        self._lead = ""  # JSON text before the value: the brace or comma and the key
        self._keys: set[str] = set()
        self._key_types: frozenset[str] | None = None
        self._value: list[str] | None = None  # None: the value's first character has not come

    def feed(self, text: str) -> list[ReplyDelta]:
        """The deltas that `text` completes."""
        self._text = self._text[self._at :] + text
        self._at = 0
        while self._step():
            pass
        return self._taken()

    def finish(self) -> list[ReplyDelta]:
        """What was held back: an unclosed call is content, white space after a call is nothing."""
        if self._place is not _Place.CONTENT:
            self._break_off()
        rest, self._text, self._at = self._text[self._at :], "", 0
        self._add_content(rest)
        blanks = self._blanks.take()
        if not self._after_call:
            self._emit_content(blanks)
        return self._taken()

    def _taken(self) -> list[ReplyDelta]:
        out, self._out = self._out, []
        return out

    def _step(self) -> bool:
        """Consume what can be consumed in one place; False when more text is needed."""
        match self._place:
            case _Place.CONTENT:
                return self._content()
            case _Place.FUNCTION_NAME:
                return self._function_name()
            case _Place.PARAMETER_NAME:
                return self._parameter_name()
            case _Place.VALUE:
                return self._parameter_value()
            case _:
                return self._between_tags()

    def _content(self) -> bool:
        start = self._text.find(_CALL, self._at)
        if start < 0:
            ready = len(self._text) - held_length(self._text, self._at, _CALL)
            self._add_content(self._text[self._at : ready])
            self._at = ready
            return False
        self._add_content(self._text[self._at : start])
        self._at = start
        self._raw = []
        self._consume(len(_CALL))
        self._place = _Place.BEFORE_FUNCTION
        return True

    def _function_name(self) -> bool:
        name = self._named()
        if name is None:
            return self._place is _Place.CONTENT
        self._name, self._call_id, self._keys = name, self._new_call_id(), set()
        self._call_out = []
        self._emit_call(
            ReplyDelta("tool_call_start", "", index=self._next_index, name=name, call_id=self._call_id)
        )
        self._next_index += 1
        self._arguments = []
        self._place = _Place.BEFORE_PARAMETER
        return True

    def _between_tags(self) -> bool:
        """Skip white space and go where the next tag leads; break off if none can be next."""
        blanks = _BLANKS.match(self._text, self._at)
        assert blanks is not None
        self._consume(blanks.end() - self._at)
        waiting = False
        for tag, place in _NEXT[self._place].items():
            if self._text.startswith(tag, self._at):
                self._consume(len(tag))
                self._place = place
                if tag == _CALL_END:
                    self._complete()
                return True
            left = len(self._text) - self._at
            waiting = waiting or (left < len(tag) and self._text.endswith(tag[:left]))
        if not waiting:
            self._break_off()
        return not waiting

    def _parameter_name(self) -> bool:
        key = self._named()
        if key is None:
            return self._place is _Place.CONTENT
        if key in self._keys:
            self._break_off()
            return True
        self._value = None
        self._key_types = self._types.of(self._name, key)
        self._lead = ("{" if not self._keys else ", ") + json_string(key) + ": "
        self._keys.add(key)
        self._place = _Place.VALUE
        return True

    def _parameter_value(self) -> bool:
        if self._value is None:
            if self._at == len(self._text):
                return False
            self._value = []
            if self._text.startswith("\n", self._at):
                self._consume(1)
            if self._streams_string:
                self._emit_arguments(self._lead + '"')
        end = self._text.find(_PARAMETER_END, self._at)
        if end < 0:
            held = max(held_length(self._text, self._at, tag) for tag in _VALUE_ENDS)
            self._add_value(self._consume(len(self._text) - held - self._at))
            return False
        value = self._consume(end - self._at)
        self._consume(len(_PARAMETER_END))
        self._add_value(value.removesuffix("\n"))
        if self._streams_string:
            self._emit_arguments('"')
        else:
            self._emit_arguments(self._lead + argument_json("".join(self._value), self._key_types))
        self._place = _Place.BEFORE_PARAMETER
        return True

    @property
    def _streams_string(self) -> bool:
        """Whether the value can go out before its end: only a string needs no second look."""
        return self._live and self._key_types == _STRING

    def _add_value(self, text: str) -> None:
        assert self._value is not None
        if self._streams_string:
            self._emit_arguments(json_string(text)[1:-1])
        else:
            self._value.append(text)

    def _named(self) -> str | None:
        """The name before `>`, consumed; None if it has not ended, or broke off."""
        end = self._text.find(">", self._at, self._at + _MAX_NAME + 1)
        name = self._text[self._at : end if end >= 0 else self._at + _MAX_NAME + 1]
        if len(name) > _MAX_NAME or _NOT_IN_NAME.search(name) or (end >= 0 and not name.strip()):
            self._break_off()
            return None
        if end < 0:
            return None
        self._consume(len(name) + 1)
        return name.strip()

    def _consume(self, length: int) -> str:
        piece = self._text[self._at : self._at + length]
        self._at += length
        self._raw.append(piece)
        return piece

    def _complete(self) -> None:
        self._emit_arguments("}" if self._keys else "{}")
        self.calls.append(ToolCall(self._call_id, self._name, "".join(self._arguments)))
        self._out.extend(self._call_out)
        self._call_out = []
        self._raw = []
        self._blanks.take()
        self._after_call = True

    def _break_off(self) -> None:
        """Give the current call back as the text it is."""
        started = self._place not in (_Place.BEFORE_FUNCTION, _Place.FUNCTION_NAME)
        if started and not self._live:
            self._next_index -= 1
        self._call_out = []
        self._place = _Place.CONTENT
        raw, self._raw = "".join(self._raw), []
        self._add_content(raw)

    def _add_content(self, text: str) -> None:
        self._emit_content(self._blanks.let_through(text))

    def _emit_content(self, text: str) -> None:
        if text:
            self._after_call = False
            self._out.append(ReplyDelta("content", text))

    def _emit_arguments(self, text: str) -> None:
        if text:
            self._arguments.append(text)
            self._emit_call(ReplyDelta("tool_call_arguments", text, index=self._next_index - 1))

    def _emit_call(self, delta: ReplyDelta) -> None:
        (self._out if self._live else self._call_out).append(delta)
