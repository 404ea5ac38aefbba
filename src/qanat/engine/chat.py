"""From a conversation to a prompt, and the reader that fits the reply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from qanat.engine.readers import ChatReader
from qanat.engine.sampling_params import SamplingParams, shown
from qanat.errors import RequestError
from qanat.text import ChatTemplate, Tokenizer
from qanat.text.chat_template import has_vision
from qanat.text.dialects import starts_in_thought
from qanat.text.tool_schema import function_schema

__all__ = ["ChatPrompt", "Tool", "prepare_chat"]

Tool = dict[str, Any] | Callable[..., Any]


class ChatPrompt:
    """A rendered and encoded conversation.

    ids: the prompt's token ids. text: the rendered prompt. in_thought: whether it ends inside of a thought.
    tools: as JSON schemas.
    """

    def __init__(
        self, ids: list[int], text: str, tools: list[dict[str, Any]] | None, think_end: int | None
    ) -> None:
        self.ids = ids
        self.text = text
        self.tools = tools
        self._think_end = think_end
        self.in_thought = starts_in_thought(text)

    def reader(self) -> ChatReader:
        """A fresh reader for one reply."""
        return ChatReader(in_thought=self.in_thought, tools=self.tools, think_end=self._think_end)


def prepare_chat(
    template: ChatTemplate,
    tokenizer: Tokenizer,
    messages: Any,
    *,
    tools: Sequence[Tool] | None,
    documents: Sequence[dict[str, Any]] | None,
    enable_thinking: bool | None,
    continue_final_message: bool | str,
    sanitize: bool,
    template_kwargs: dict[str, Any],
    most: int | None = None,
) -> ChatPrompt:
    """Render and encode.

    Raises:
        TooManyTokensError: more than `most` tokens.
        RequestError: an image or video, no message at all, or an argument of the wrong kind.
        TemplateError: what the template refuses, in its words.
    """
    if enable_thinking is not None and not isinstance(enable_thinking, bool):
        raise RequestError(f"enable_thinking must be True, False or None, not {enable_thinking!r}")
    if "add_generation_prompt" in template_kwargs:
        raise RequestError(
            "chat opens the assistant's turn by itself; to go on with the last message instead, give "
            "continue_final_message=True"
        )
    idle = next((name for name in template_kwargs if name not in template.variables), None)
    if idle is not None:
        sampling = idle in SamplingParams.__dataclass_fields__
        raise RequestError(
            f"{idle} would do nothing: "
            + (f"give SamplingParams({idle}=...)" if sampling else "the chat template does not read it")
        )
    # What can be read only once (a generator) is read here, for the several who look at it.
    messages = list(messages) if isinstance(messages, Iterator) else messages
    if tools is not None and not isinstance(tools, Iterable):
        raise RequestError(f"tools must be a list, not {shown(tools)}")
    tools = list(tools or ())
    picture = has_vision(messages)
    if picture is not None:
        raise RequestError(f"there is {picture}: qanat has no vision tower yet; send text only")
    options = {
        "tools": tools or None,
        "documents": documents,
        "add_generation_prompt": not continue_final_message,
        "continue_final_message": continue_final_message,
        **template_kwargs,
    }
    if enable_thinking is not None:
        options["enable_thinking"] = enable_thinking
    schemas = [function_schema(tool) if callable(tool) else tool for tool in tools] or None
    think_end = tokenizer.token_id("</think>")
    if sanitize:
        segments = template.render_segments(messages, added_tokens=tokenizer.added_tokens, **options)
        text = "".join(segment.text for segment in segments)
        return ChatPrompt(tokenizer.encode_prompt(segments, most=most), text, schemas, think_end)
    text = template.render(messages, **options)
    return ChatPrompt(tokenizer.encode(text, most=most), text, schemas, think_end)
