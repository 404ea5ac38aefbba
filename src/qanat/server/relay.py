"""An engine's answer to a message of its server, as messages: in a process of its own as in a Ray replica."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from qanat.server.chat_request import ChatRequest
from qanat.server.engine_client import EngineClient, Explain, Question, Render
from qanat.server.errors import error_response, log_bug
from qanat.server.wire import (
    Answered,
    Ask,
    Chunk,
    Ended,
    ExplainJson,
    FromEngine,
    Queued,
    Refused,
    RenderJson,
    Run,
    unpack_request,
)

__all__ = ["answer"]


async def answer(engine: EngineClient, message: Run | Ask) -> AsyncGenerator[FromEngine, None]:
    """Everything that is to be said to one message. Closed or cancelled, it ends the request."""
    try:
        if isinstance(message, Ask):
            yield Answered(message.id, await engine.ask(_question(message)))
            return
        request = unpack_request(message.request)
        async with engine.run(request, message.options) as running:
            yield Queued(message.id, running.echoed)
            async for chunk in running.chunks:
                if request.stream or chunk.reply is not None:
                    yield Chunk(message.id, chunk)
        yield Ended(message.id)
    except Exception as error:
        log_bug(error)
        yield Refused(message.id, *error_response(error))


def _question(message: Ask) -> Question:
    if not isinstance(message.question, RenderJson | ExplainJson):
        return message.question
    request = unpack_request(message.question.request)
    assert isinstance(request, ChatRequest)
    return Render(request) if isinstance(message.question, RenderJson) else Explain(request)
