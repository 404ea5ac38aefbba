"""An engine in this process: `AsyncLLM` as `EngineClient`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict

from qanat.engine.async_llm import AsyncLLM
from qanat.engine.generation import Generation
from qanat.engine.request_options import RequestOptions
from qanat.errors import RequestError
from qanat.server.answering import chat_defaults, echoed_prompts, prepare_generations, rendered_prompt
from qanat.server.completion_request import CompletionRequest
from qanat.server.engine_client import (
    Answer,
    Detokenize,
    EngineOptions,
    Explain,
    ModelInfo,
    Question,
    Render,
    Request,
    Running,
    Tokenize,
)
from qanat.server.explaining import explained_prompt
from qanat.server.responses import EchoedPrompt

__all__ = ["LocalEngine"]

FORMS = 2
"""Requests whose grammars are made at once."""


class LocalEngine:
    """Answers with a model in this process. Making one blocks while the model loads; raises as `AsyncLLM`.

    Prompts are rendered and encoded in threads, so that the event loop goes on meanwhile; a template has
    `RENDER_SECONDS` for it.
    """

    state = "ready"

    def __init__(self, options: EngineOptions) -> None:
        self.llm = AsyncLLM(**asdict(options))
        # Whoever asks for a form waits for others who do, not those who want text.
        self._forms = ThreadPoolExecutor(FORMS, thread_name_prefix="qanat-forms")
        self.info = ModelInfo(self.llm.max_model_len, chat_defaults(self.llm))

    @asynccontextmanager
    async def run(self, request: Request, options: RequestOptions) -> AsyncIterator[Running]:
        """As `EngineClient.run`."""
        pool = self._forms if request.has_form else None
        loop = asyncio.get_running_loop()
        generations, echoed = await loop.run_in_executor(pool, self._prepare, request, options)
        with self.llm.running(generations) as chunks:
            yield Running(echoed, chunks)

    def _prepare(
        self, request: Request, options: RequestOptions
    ) -> tuple[list[Generation], list[EchoedPrompt] | None]:
        generations = prepare_generations(self.llm, request, options)
        if isinstance(request, CompletionRequest):
            return generations, echoed_prompts(self.llm, request)
        return generations, None

    async def ask(self, question: Question) -> Answer:
        """As `EngineClient.ask`."""
        return await asyncio.to_thread(self._answer, question)

    def _answer(self, question: Question) -> Answer:
        if isinstance(question, Tokenize):
            return self.llm.tokenizer.encode(question.text, split_special_tokens=question.plain)
        if isinstance(question, Detokenize):
            last = self.llm.tokenizer.largest_id
            wrong = next((i for i in question.ids if i > last), None)
            if wrong is not None:
                raise RequestError(f"there is no token {wrong}: the last is {last}")
            return self.llm.tokenizer.decode(question.ids)
        if isinstance(question, Render):
            return rendered_prompt(self.llm, question.request)
        if isinstance(question, Explain):
            return explained_prompt(self.llm, question.request)
        return self.llm.stats()
