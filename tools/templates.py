"""The chat template that goes into a model folder, in its two kinds.

Small models (0.8B, 2B) answer at once unless told to think; big ones think unless told not to. The
text is the same but for one line.
"""

from __future__ import annotations

from pathlib import Path

TEMPLATE = Path(__file__).resolve().parent.parent / "src" / "qanat" / "pocket_model" / "chat_template.jinja"

_SWITCH = "{%- set thinks_by_default = false %}"


def template_text(thinking_by_default: bool) -> str:
    """The template's text with its switch set."""
    text = TEMPLATE.read_text(encoding="utf-8")
    if text.count(_SWITCH) != 1:
        raise ValueError(f"{TEMPLATE}: expected exactly one line {_SWITCH!r}")
    return text.replace(_SWITCH, _SWITCH.replace("false", "true")) if thinking_by_default else text
