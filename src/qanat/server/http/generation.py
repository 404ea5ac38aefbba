"""`/v1/chat/completions` and `/v1/completions`: a request is read, queued, and answered whole or as a stream.

Whoever closes the connection, while the prompt waits, is read or is answered, ends the request.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from qanat.engine.reply import Reply
from qanat.engine.request_options import RequestOptions
from qanat.server.answering import check_model
from qanat.server.chat_request import ChatRequest
from qanat.server.engine_client import Request, Running
from qanat.server.errors import log_bug
from qanat.server.http.access_log import ENTRY, Entry
from qanat.server.http.body import ClientGoneError, read_json
from qanat.server.http.event_stream import EventStream, with_pauses
from qanat.server.http.guard import SALT
from qanat.server.http.replies import error_reply, json_reply
from qanat.server.http.service import Service
from qanat.server.responses import Head, chat_completion, text_completion
from qanat.server.streams import ChatStream, TextStream

__all__ = ["Generation"]


class Generation:
    """An endpoint, as an ASGI application.

    Args:
        service: what answers.
        read: makes a request of a parsed body.
    """

    def __init__(self, service: Service, read: Callable[[Any], Request]) -> None:
        self._service = service
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        settings = self._service.settings
        stream = EventStream(send, stall=settings.stall)
        entry: Entry = scope[ENTRY]
        try:
            with self._service.requests.place():
                request = await read_json(
                    scope, receive, self._read, most=settings.most_body, seconds=settings.stall
                )
                entry.stream = request.stream
                check_model(request.model, list(settings.names))
                options = RequestOptions(
                    timeout=settings.request_timeout,
                    cache_salt=scope[SALT],
                    progress=isinstance(request, ChatRequest) and request.return_progress,
                )
                whole = await _while_connected(receive, self._answer(request, options, stream, entry))
            if whole is not None:
                entry.count(whole["usage"])
                await json_reply(whole)(scope, receive, send)
            self._service.metrics.whole.observe(entry.elapsed)
        except (HTTPException, ClientGoneError, TimeoutError):
            raise
        except Exception as error:
            log_bug(error)
            entry.fail(error)
            if stream.begun:
                await stream.error(error)
            else:
                await error_reply(error)(scope, receive, send)

    async def _answer(
        self, request: Request, options: RequestOptions, stream: EventStream, entry: Entry
    ) -> dict[str, Any] | None:
        """The whole answer; None if it was streamed."""
        async with self._service.engine.run(request, options) as running:
            if not request.stream:
                return await self._whole(request, running)
            await stream.begin()
            writer = self._writer(request, running)
            async with aclosing(with_pauses(running.chunks, self._service.settings.keep_alive)) as chunks:
                async for chunk in chunks:
                    if chunk is None:
                        await stream.comment()
                    else:
                        await stream.objects(writer.feed(chunk))
            entry.count(writer.usage())
            await stream.objects(writer.finish())
        await stream.done()
        return None

    def _writer(self, request: Request, running: Running) -> ChatStream | TextStream:
        head = self._head(request)
        if isinstance(request, ChatRequest):
            return ChatStream(head, include_usage=request.include_usage)
        return TextStream(
            head, n=request.params.n, include_usage=request.include_usage, echoed=running.echoed
        )

    async def _whole(self, request: Request, running: Running) -> dict[str, Any]:
        found: dict[tuple[int, int], Reply] = {}
        async for chunk in running.chunks:
            if chunk.reply is not None:
                found[chunk.prompt_index, chunk.choice_index] = chunk.reply
        replies: dict[int, list[Reply]] = {}
        for (prompt, _), reply in sorted(found.items(), key=lambda item: item[0]):
            replies.setdefault(prompt, []).append(reply)
        if isinstance(request, ChatRequest):
            return chat_completion(self._head(request), replies[0])
        return text_completion(self._head(request), list(replies.values()), running.echoed)

    def _head(self, request: Request) -> Head:
        kind = "chatcmpl" if isinstance(request, ChatRequest) else "cmpl"
        return Head(f"{kind}-{secrets.token_hex(12)}", int(time.time()), self._service.settings.names[0])


async def _while_connected(receive: Receive, work: Coroutine[Any, Any, Any]) -> Any:
    """What `work` gives. A client that goes away ends it: ClientGoneError."""
    task = asyncio.create_task(work)
    watch = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
