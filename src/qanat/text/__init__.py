"""The room of text: messages -> prompt -> token ids -> text, and replies read back.

It knows Unicode, byte-pair encoding and chat templates, and the files tokenizer.json, tokenizer_config.json
and chat_template.jinja. It must not know tensors, models, requests or devices. docs/frontend.md describes
it section by section. Names are loaded on first use, so that importing the room costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qanat.text.added_tokens import AddedToken
    from qanat.text.chat_template import ChatTemplate
    from qanat.text.explain import Stages
    from qanat.text.segments import Segment
    from qanat.text.stream import StreamDecoder
    from qanat.text.tokenizer import Tokenizer

__all__ = ["AddedToken", "ChatTemplate", "Segment", "Stages", "StreamDecoder", "Tokenizer"]

_HOMES = {
    "AddedToken": "added_tokens",
    "ChatTemplate": "chat_template",
    "Segment": "segments",
    "Stages": "explain",
    "StreamDecoder": "stream",
    "Tokenizer": "tokenizer",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"qanat.text.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
