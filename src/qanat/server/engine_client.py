"""What the HTTP side needs of an engine, wherever it runs: requests in, chunks out, questions answered.

`LocalEngine` is one in this process, `ChildEngine` one in a process of its own, `Supervisor` one that is
started again when it has died.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import msgspec

from qanat.engine.reply import ReplyChunk
from qanat.engine.request_options import RequestOptions
from qanat.engine.stats import EngineStats
from qanat.server.chat_request import ChatDefaults, ChatRequest
from qanat.server.completion_request import CompletionRequest
from qanat.server.responses import EchoedPrompt

__all__ = [
    "Answer",
    "Detokenize",
    "EngineClient",
    "EngineOptions",
    "Explain",
    "ModelInfo",
    "Question",
    "Render",
    "Request",
    "Running",
    "Stats",
    "Tokenize",
]

Request = ChatRequest | CompletionRequest


@dataclass(frozen=True)
class EngineOptions:
    """The arguments of `AsyncLLM`, as plain data."""

    model: str = "pocket"
    backend: str = "auto"
    weights: str = "auto"
    threads: int | None = None
    revision: str | None = None
    offline: bool | None = None
    max_model_len: int | None = None
    max_batch: int = 8
    memory: int | None = None
    max_waiting: int | None = None
    debug: bool = False


@dataclass(frozen=True)
class ModelInfo:
    """What an engine tells about itself once it is ready."""

    context: int
    """The longest prompt plus reply, in tokens."""
    chat: ChatDefaults | None = None
    """None: it has no chat template."""


class Tokenize(msgspec.Struct, frozen=True, tag=True):
    """The token ids of a text. plain: control tokens in it are read as plain text."""

    text: str
    plain: bool


class Detokenize(msgspec.Struct, frozen=True, tag=True):
    """The text of token ids."""

    ids: list[int]


class Render(msgspec.Struct, frozen=True, tag=True):
    """The prompt that a chat request puts to the model, as text."""

    request: ChatRequest


class Explain(msgspec.Struct, frozen=True, tag=True):
    """Every stage between a chat request and its token ids, as JSON."""

    request: ChatRequest


class Stats(msgspec.Struct, frozen=True, tag=True):
    """What was computed, and what there is now."""


Question = Tokenize | Detokenize | Render | Explain | Stats
Answer = list[int] | str | EngineStats


@dataclass(frozen=True)
class Running:
    """A request that is queued or computed."""

    echoed: list[EchoedPrompt] | None
    """Its prompts, if it wants them back before the replies."""
    chunks: AsyncIterator[ReplyChunk]
    """Read by the task that started it. Of a request that does not stream only the last ones are certain to
    come."""


class EngineClient(Protocol):
    """An engine as HTTP sees it."""

    @property
    def state(self) -> str:
        """`ready`, or why it is not: `loading`, `dead`."""

    @property
    def info(self) -> ModelInfo | None:
        """None until it has been ready once."""

    def run(self, request: Request, options: RequestOptions) -> AbstractAsyncContextManager[Running]:
        """Queue a request; within the block it runs, at its end what still runs is cancelled.

        Raises:
            QanatError: what `error_response` turns into a status: before the block if the request cannot be
                queued, from the chunks if it fails later.
        """

    async def ask(self, question: Question) -> Answer:
        """Answer a question. Raises QanatError."""
