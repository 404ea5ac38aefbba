"""What a chat needs of whoever answers: a model in this process, or a server."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Protocol

from qanat.cli.replies import count_prompt
from qanat.cli.sampling import describe, parameters, resolve_thinking

if TYPE_CHECKING:
    from qanat.cli.chat_state import Conversation
    from qanat.engine import LLM, Reply, ReplyChunk, SamplingParams

__all__ = ["ChatModel", "LocalModel"]


class ChatModel(Protocol):
    """Who answers. Every method may raise a QanatError, and has changed nothing then."""

    @property
    def name(self) -> str:
        """As it is shown and saved."""

    def describe(self, conversation: Conversation, *, greedy: bool) -> str:
        """How the next reply will be drawn; an error if its settings cannot be used."""

    def describe_thinking(self, wanted: bool | None) -> str:
        """What the model will do before it answers; an error if it cannot be told to."""

    def check(self, conversation: Conversation) -> None:
        """An error if the conversation cannot be put to the model."""

    def count(self, conversation: Conversation) -> int | None:
        """Tokens of the prompt; None where only the server could tell."""

    def answer(
        self, conversation: Conversation, *, greedy: bool
    ) -> tuple[int | None, Generator[Any, None, None]]:
        """The seed that is used, if it is known, and the reply's chunks as `stream_reply` reads them.

        Nothing is computed before they are read; closing them ends the reply.
        """

    def explain_end(self, reply: Any) -> str | None:
        """Why the reply ended, if it did not end by itself."""


class LocalModel:
    """A model in this process."""

    def __init__(self, llm: LLM, name: str) -> None:
        self.llm = llm
        self.name = name

    def params(self, conversation: Conversation, *, greedy: bool) -> SamplingParams:
        """What the next reply is drawn with."""
        thinking = resolve_thinking(self.llm.template, conversation.thinking)
        return parameters(self.llm, conversation.settings, greedy=greedy, thinking=thinking)

    def describe(self, conversation: Conversation, *, greedy: bool) -> str:
        """As `ChatModel`; a seed only where the user has set one."""
        return describe(self.params(conversation, greedy=greedy), seed="seed" in conversation.settings)

    def describe_thinking(self, wanted: bool | None) -> str:
        """As `ChatModel`."""
        return f"the model {'thinks' if resolve_thinking(self.llm.template, wanted) else 'answers at once'}"

    def check(self, conversation: Conversation) -> None:
        """As `ChatModel`."""
        self.llm.template.render(conversation.messages(), add_generation_prompt=True)

    def count(self, conversation: Conversation) -> int:
        """As `ChatModel`."""
        return count_prompt(self.llm, conversation.messages(), enable_thinking=conversation.thinking)

    def answer(
        self, conversation: Conversation, *, greedy: bool
    ) -> tuple[int | None, Generator[ReplyChunk, None, None]]:
        """As `ChatModel`."""
        params = self.params(conversation, greedy=greedy)
        chunks: Any = self.llm.chat(
            conversation.messages(), params, enable_thinking=conversation.thinking, stream=True
        )
        return params.seed, chunks

    def explain_end(self, reply: Reply) -> str | None:
        """As `ChatModel`."""
        if reply.finish_reason != "length":
            return None
        if reply.usage.total_tokens >= self.llm.max_model_len:
            return f"cut off: the context of {self.llm.max_model_len} tokens is full (/clear begins anew)"
        return "cut off: the reply reached its limit of tokens (/set max_tokens N)"
