"""An engine that says what a test wrote down, piece by piece, and notes what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from threading import Event

from qanat.engine import EngineStats, PromptProgress, Reply, ReplyChunk, RequestOptions, TokenLogprob, Usage
from qanat.engine.reply import Alternative
from qanat.engine.sequence import FinishReason
from qanat.server.chat_request import ChatDefaults, ChatRequest
from qanat.server.engine_client import Answer, Explain, ModelInfo, Question, Request, Running
from qanat.text.dialects import ReplyDelta

CONTEXT = 4096
PLAIN = {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "max_tokens": 512}
THINKING = {**PLAIN, "temperature": 1.0}


@dataclass
class Say:
    """One reply: a thought, a text in pieces of `size` characters, calls as (name, arguments)."""

    text: str = ""
    thought: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    size: int = 9
    pause: float = 0.0
    """Seconds before every piece."""
    hold: Event | None = None
    """If there is one, the last piece waits for it."""
    reading: Event | None = None
    """If there is one, the prompt is half read until it is set."""
    error: Exception | None = None
    """Ends it instead of its end."""
    refuse: Exception | None = None
    """Refuses the request."""
    finish: FinishReason = "stop"


class ScriptedEngine:
    """Answers each request with the next of `replies`, or with a plain word when there is none."""

    state = "ready"

    def __init__(self) -> None:
        self.info = ModelInfo(CONTEXT, ChatDefaults(False, True, dict(PLAIN), dict(THINKING)))
        self.replies: deque[Say] = deque()
        self.requests: list[ChatRequest] = []
        self.cancelled = 0

    def will(self, *replies: Say | str) -> None:
        """What it says next."""
        self.replies.extend(Say(reply) if isinstance(reply, str) else reply for reply in replies)

    @asynccontextmanager
    async def run(self, request: Request, options: RequestOptions) -> AsyncIterator[Running]:
        assert isinstance(request, ChatRequest)
        self.requests.append(request)
        say = self.replies.popleft() if self.replies else Say("Well.")
        if say.refuse is not None:
            raise say.refuse
        try:
            yield Running(None, self._chunks(say, request, options))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def _chunks(
        self, say: Say, request: ChatRequest, options: RequestOptions
    ) -> AsyncIterator[ReplyChunk]:
        if say.reading is not None and options.progress:
            yield ReplyChunk(progress=PromptProgress(1200, 100, 600))
            await until(say.reading)
        deltas = list(deltas_of(say))
        for place, delta in enumerate(deltas):
            if say.hold is not None and place == len(deltas) - 1:
                await until(say.hold)
            await asyncio.sleep(say.pause)
            logprobs = (likely(delta.text),) if request.params.logprobs is not None else None
            yield ReplyChunk(deltas=(delta,), logprobs=logprobs)
        if say.error is not None:
            raise say.error
        finish: FinishReason = "tool_calls" if say.calls else say.finish
        usage = Usage(40, len(deltas) + 1, cached_tokens=10)
        yield ReplyChunk(reply=Reply(say.text, say.thought, (), (1,), finish, usage, None, 0))

    async def ask(self, question: Question) -> Answer:
        if isinstance(question, Explain):
            text = str(question.request.messages[-1]["content"])
            piece = {"text": text, "byte_level": text, "merges": [], "tokens": [text], "ids": [7]}
            stretch = {"text": text, "normalized": text, "added_token": None, "pieces": [piece]}
            return json.dumps({"prompt": text, "tokens": [7], "vocabulary": 9, "stretches": [stretch]})
        return EngineStats(**dict.fromkeys(EngineStats.__dataclass_fields__, 0))


async def until(event: Event) -> None:
    while not event.is_set():
        await asyncio.sleep(0.005)


def deltas_of(say: Say) -> list[ReplyDelta]:
    """The pieces in which a reply comes."""
    deltas = [ReplyDelta("reasoning", piece) for piece in cut(say.thought, say.size)]
    deltas += [ReplyDelta("content", piece) for piece in cut(say.text, say.size)]
    for index, (name, arguments) in enumerate(say.calls):
        deltas.append(ReplyDelta("tool_call_start", "", index, name, f"call_{index}"))
        deltas += [ReplyDelta("tool_call_arguments", piece, index) for piece in cut(arguments, say.size)]
    return deltas


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def likely(text: str) -> TokenLogprob:
    """A token that stood before one other."""
    data = text.encode()
    first = Alternative(1, text, data, -0.2)
    return TokenLogprob(1, text, data, -0.2, (first, Alternative(2, "other", b"other", -2.0)))
