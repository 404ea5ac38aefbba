"""Prompts that end inside the last message, for the model to carry on.

Where the message's text ends in the rendered prompt is found with a marker: it is put at the end of
the text, the conversation is rendered, and the prompt is cut where the marker came out.
"""

from __future__ import annotations

from typing import Any

from qanat.errors import TemplateError
from qanat.text.template_data import REASONING_FIELDS

__all__ = ["cut_at_marker", "mark_last_message"]

# The blank at the end tells whether the template trims: if it is gone, so is the text's own trailing blank.
MARKER = "CONTINUE_FINAL_MESSAGE_TAG "


def mark_last_message(messages: list[dict[Any, Any]], field: str, source: str) -> str:
    """Put the marker at the end of `field` of the last message, in place; return the unmarked text.

    Content given as a list is continued in its last text item. Raises TemplateError when there is
    nothing to continue or the template (`source`) never reads the field.
    """
    last = messages[-1]
    value = last.get(field)
    if value is None:
        raise TemplateError(
            f'continue_final_message is set but the final message has no "{field}" to continue!'
        )
    # Reasoning lies under several names: mark each copy, since the template reads only one of them.
    fields = (
        [name for name in REASONING_FIELDS if last.get(name) == value]
        if field in REASONING_FIELDS
        else [field]
    )
    if not any(name in source for name in fields):
        raise TemplateError(
            f'continue_final_message is set to "{field}" but this is not an accepted field '
            "in the chat_template"
        )
    if isinstance(value, list | tuple):
        for item in reversed(value):
            if isinstance(item, dict) and isinstance(text := item.get("text"), str):
                item["text"] = text + MARKER
                return text
        raise TemplateError(
            "continue_final_message is set but we could not find any text to continue in the final message!"
        )
    if not isinstance(value, str):
        raise TemplateError(f'continue_final_message is set but "{field}" of the final message is not text.')
    for name in fields:
        last[name] = value + MARKER
    return value


def cut_at_marker(prompt: str, text: str) -> str:
    """The prompt up to the marker; raises TemplateError when the template did not write `text`."""
    at = prompt.rfind(MARKER.strip())
    if at < 0 or text.strip() not in prompt:
        raise TemplateError(
            "continue_final_message is set but the final message does not appear in the chat after applying "
            "the chat template! The template may leave out a part of it."
        )
    cut = prompt[:at]
    return cut if prompt.startswith(MARKER, at) else cut.rstrip()
