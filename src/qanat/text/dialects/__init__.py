"""Dialects: reading thoughts and tool calls out of the text a model writes.

Knows: how the Qwen3.5 family marks thoughts and writes tool calls, and JSON schema as far as an
argument's type goes. Must not know: token ids, generation, HTTP. Nothing a model writes is an
error here: what is no proper call is content (docs/frontend.md section 9).
"""

from qanat.text.dialects.deltas import ReplyDelta, ToolCall
from qanat.text.dialects.reply_parser import ReplyParser
from qanat.text.dialects.thoughts import starts_in_thought

__all__ = ["ReplyDelta", "ReplyParser", "ToolCall", "starts_in_thought"]
