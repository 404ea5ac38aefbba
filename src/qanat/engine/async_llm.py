"""`AsyncLLM`: the same model for asyncio. One thread computes; tasks await what concerns them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any, overload

from qanat.engine.chat import Tool
from qanat.engine.core import Engine, Params, Prompt, Prompts
from qanat.engine.driver import Driver, Listener
from qanat.engine.generation import Generation, Growing, by_prompt
from qanat.engine.reply import Reply, ReplyChunk
from qanat.engine.request_options import RequestOptions
from qanat.engine.sampling_params import SamplingParams

__all__ = ["AsyncLLM"]


class AsyncLLM(Engine):
    """A model that answers many tasks at once; the arguments are those of `LLM`.

    Making one blocks while the model is loaded. A task that is cancelled, and a stream that is closed, ends
    its requests. `async with` closes it at the end.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._driver = Driver(self._scheduler)

    async def __aenter__(self) -> AsyncLLM:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End what runs (its tasks get a RequestError) and the computing thread."""
        await asyncio.to_thread(self._driver.close)

    @overload
    async def generate(
        self, prompts: Prompt, params: Params = None, *, options: RequestOptions | None = None
    ) -> Reply: ...
    @overload
    async def generate(
        self, prompts: Prompts, params: Params = None, *, options: RequestOptions | None = None
    ) -> list[Reply]: ...
    async def generate(
        self, prompts: Prompt | Prompts, params: Params = None, *, options: RequestOptions | None = None
    ) -> Reply | list[Reply]:
        """Continue one prompt or several; as `LLM.generate`."""
        single, generations = await asyncio.to_thread(self.of_prompts, prompts, params, options)
        replies = by_prompt([c async for c in self._run(generations) if c.reply is not None])
        return replies[0] if single else replies

    async def stream(
        self, prompts: Prompt | Prompts, params: Params = None, *, options: RequestOptions | None = None
    ) -> AsyncIterator[ReplyChunk]:
        """Continue prompts, chunk by chunk; as `LLM.generate(..., stream=True)`."""
        _, generations = await asyncio.to_thread(self.of_prompts, prompts, params, options)
        async for chunk in self._run(generations):
            yield chunk

    async def chat(
        self,
        messages: Any,
        params: SamplingParams | None = None,
        *,
        tools: Sequence[Tool] | None = None,
        tool_choice: str | dict[str, Any] = "auto",
        parallel_tool_calls: bool = True,
        documents: Sequence[dict[str, Any]] | None = None,
        enable_thinking: bool | None = None,
        continue_final_message: bool | str = False,
        options: RequestOptions | None = None,
        sanitize: bool = False,
        **template_kwargs: Any,
    ) -> Reply:
        """Answer a conversation; as `LLM.chat`."""
        stream = self.stream_chat(
            messages,
            params,
            tools=tools,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
            documents=documents,
            enable_thinking=enable_thinking,
            continue_final_message=continue_final_message,
            options=options,
            sanitize=sanitize,
            **template_kwargs,
        )
        return by_prompt([chunk async for chunk in stream if chunk.reply is not None])[0]

    async def stream_chat(
        self,
        messages: Any,
        params: SamplingParams | None = None,
        *,
        tools: Sequence[Tool] | None = None,
        tool_choice: str | dict[str, Any] = "auto",
        parallel_tool_calls: bool = True,
        documents: Sequence[dict[str, Any]] | None = None,
        enable_thinking: bool | None = None,
        continue_final_message: bool | str = False,
        options: RequestOptions | None = None,
        sanitize: bool = False,
        **template_kwargs: Any,
    ) -> AsyncIterator[ReplyChunk]:
        """Answer a conversation, chunk by chunk; as `LLM.chat(..., stream=True)`."""
        prepare = partial(
            self.of_conversation,
            tools=tools,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
            documents=documents,
            enable_thinking=enable_thinking,
            continue_final_message=continue_final_message,
            options=options,
            sanitize=sanitize,
            template_kwargs=template_kwargs,
        )
        generations = await asyncio.to_thread(prepare, messages, params)
        async for chunk in self._run(generations):
            yield chunk

    @contextlib.contextmanager
    def running(self, generations: Sequence[Generation]) -> Iterator[AsyncIterator[ReplyChunk]]:
        """Queue what `of_prompts` or `of_conversation` made, at once; it runs within the block.

        Gives its chunks, to be read by the task that entered.

        Raises:
            RequestError, QueueFullError: it cannot be queued.
        """
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        listener = Listener(partial(loop.call_soon_threadsafe, news.set))
        growing = Growing(generations, self.tokenizer, partial(self._driver.report, listener))
        listener.sequences = growing.sequences
        try:
            with self._driver.running(listener):
                yield _chunks(growing, listener, news)
        finally:
            growing.close()

    async def _run(self, generations: Sequence[Generation]) -> AsyncIterator[ReplyChunk]:
        with self.running(generations) as chunks:
            async for chunk in chunks:
                yield chunk


async def _chunks(growing: Growing, listener: Listener, news: asyncio.Event) -> AsyncIterator[ReplyChunk]:
    while growing:
        await news.wait()
        news.clear()
        listener.heard()  # before looking: what comes meanwhile is told again
        for chunk in growing.news():
            yield chunk
