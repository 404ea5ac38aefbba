"""`Engine`: a checkpoint, a backend and a scheduler, made ready; what `LLM` and `AsyncLLM` have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from qanat.backends import PackSource, choose_backend, open_backend
from qanat.checkpoint import Checkpoint, ModelConfig, load_checkpoint
from qanat.engine.chat import Tool, prepare_chat
from qanat.engine.defaults import params_like_transformers
from qanat.engine.generation import Generation
from qanat.engine.guide import Guide, no_guide
from qanat.engine.guiding import CallRule, Guiding
from qanat.engine.memory import PAGE, STEP_TOKENS, plan
from qanat.engine.readers import PlainReader, Reader
from qanat.engine.request_options import RequestOptions
from qanat.engine.requests import (
    Vocabulary,
    build_generations,
    check_ids,
    match_params,
    split_prompts,
    too_long,
)
from qanat.engine.sampling_params import SamplingParams, shown
from qanat.engine.scheduler import Scheduler
from qanat.engine.stats import EngineStats, StepRecord
from qanat.errors import OutOfMemoryError, RequestError, TooManyTokensError
from qanat.model import TextModel, require_runnable
from qanat.text import ChatTemplate, Tokenizer
from qanat.text.dialects import starts_in_thought

__all__ = ["Engine", "Params", "Prompt", "Prompts"]

WORTH_COUNTING = 1 << 16
"""Tokens that any text is encoded to, however short the context."""

Prompt = str | list[int]
Prompts = list[str] | list[list[int]] | list[str | list[int]]
Params = SamplingParams | Sequence[SamplingParams] | None


class Engine:
    """A model that is ready to run requests. Arguments and errors are those of `LLM`."""

    def __init__(
        self,
        model: str | Path | Checkpoint = "pocket",
        *,
        backend: str = "auto",
        weights: str = "auto",
        threads: int | None = None,
        revision: str | None = None,
        offline: bool | None = None,
        max_model_len: int | None = None,
        max_batch: int = 8,
        step_tokens: int = STEP_TOKENS,
        memory: int | None = None,
        snapshots: int | None = None,
        max_waiting: int | None = None,
        debug: bool = False,
    ) -> None:
        _check_size("max_batch", max_batch)
        _check_size("step_tokens", step_tokens)
        if max_model_len is not None:
            _check_size("max_model_len", max_model_len)
        if memory is not None:
            _check_size("memory", memory, most=2**63 - 1)
        if snapshots is not None:
            _check_size("snapshots", snapshots, least=0)
        if max_waiting is not None:
            _check_size("max_waiting", max_waiting, least=0)
        # Unknown names and modes are refused before any download.
        self.backend = backend = choose_backend(backend, weights, threads)
        self.checkpoint = _open(model, revision, offline)
        config = self.checkpoint.config.text
        require_runnable(config)  # before the memory is weighed: no machine would be large enough
        self.tokenizer = Tokenizer.from_folder(self.checkpoint.path)
        self.memory = plan(
            config,
            backend=backend,
            weights=weights,
            context=max_model_len,
            sequences=max_batch,
            stored_bf16=self.checkpoint.stored_in_bfloat16,
            step_tokens=step_tokens,
            snapshots=snapshots,
            limit=memory,
        )
        self.max_model_len = self.memory.context
        self.vocabulary = Vocabulary.of(self.tokenizer, self.checkpoint)
        self._guiding = Guiding(
            self.tokenizer, end_ids=sorted(self.vocabulary.end_ids), live=self.vocabulary.live
        )
        ops = open_backend(
            backend,
            weights=self.memory.weights,
            threads=threads,
            pack=PackSource(self.checkpoint.fingerprint, self.checkpoint.name) if backend == "cpu" else None,
        )
        try:
            self._scheduler = Scheduler(
                TextModel(config, self.checkpoint.tensors, ops),
                slots=max_batch,
                pages=self.memory.pages,
                page=PAGE,
                live_vocab=self.vocabulary.live,
                snapshots=self.memory.snapshots,
                step_tokens=step_tokens,
                max_waiting=max_waiting,
                debug=debug,
            )
        except MemoryError:
            raise OutOfMemoryError(
                "the system refused the memory for the model: try weights='bf16', a shorter max_model_len "
                "or a smaller model"
            ) from None

    @property
    def config(self) -> ModelConfig:
        """The checkpoint's configuration."""
        return self.checkpoint.config

    @cached_property
    def template(self) -> ChatTemplate:
        """The checkpoint's chat template; TemplateError if it has none."""
        return ChatTemplate.from_folder(self.checkpoint.path)

    @cached_property
    def default_params(self) -> SamplingParams:
        """What a request inherits where it says nothing: generation_config.json, else greedy."""
        return params_like_transformers(self.checkpoint)

    def check_params(self, params: SamplingParams) -> None:
        """Raise RequestError if `params` cannot be used with this model; `generate` and `chat` do so too."""
        check_ids(params.with_defaults(self.default_params), self.vocabulary)

    @property
    def idle(self) -> bool:
        """Whether no request is under way, and all state is free or a snapshot's."""
        return self._scheduler.idle

    def stats(self) -> EngineStats:
        """What was computed since the start, how long it took, and what there is now."""
        return self._scheduler.stats()

    def steps(self) -> list[StepRecord]:
        """Sizes and times of the latest steps (1,024 at most), the oldest first."""
        return self._scheduler.records()

    def check_integrity(self) -> None:
        """Assert that every slot and page of the state is free or has exactly the owners it should have."""
        self._scheduler.check_integrity()

    def of_prompts(
        self, prompts: Prompt | Prompts, params: Params, options: RequestOptions | None
    ) -> tuple[bool, list[Generation]]:
        """Whether one prompt was given and not a list, and what is to run for `generate`. RequestError."""
        single, texts = split_prompts(prompts)
        ids = []
        for place, text in enumerate(texts):
            with self._bounded("the prompt" if len(texts) == 1 else f"prompt {place}") as most:
                ids.append(self.tokenizer.encode(text, most=most) if isinstance(text, str) else text)
        params = match_params(params, len(ids))
        made: dict[Any, Callable[[], Guide | None]] = {}  # what many prompts ask for alike is compiled once
        guides = [self._guide_of(text, p, made) for text, p in zip(texts, params, strict=True)]
        return single, self._build(ids, params, [PlainReader] * len(ids), options, guides)

    def _guide_of(
        self, prompt: Prompt, params: SamplingParams, made: dict[Any, Callable[[], Guide | None]]
    ) -> Callable[[], Guide | None]:
        if not _guided(params):
            return no_guide
        thought = self._opens_thought(prompt)
        key = params.structure, params.thinking_budget, params.skip_special_tokens, thought
        if key not in made:
            made[key] = self._guiding.prepare(params, in_thought=thought)
        return made[key]

    def _opens_thought(self, prompt: Prompt) -> bool:
        return starts_in_thought(prompt if isinstance(prompt, str) else self.tokenizer.decode(prompt))

    def of_conversation(
        self,
        messages: Any,
        params: SamplingParams | None,
        *,
        tools: Sequence[Tool] | None,
        tool_choice: str | dict[str, Any],
        parallel_tool_calls: bool,
        documents: Sequence[dict[str, Any]] | None,
        enable_thinking: bool | None,
        continue_final_message: bool | str,
        options: RequestOptions | None,
        sanitize: bool,
        template_kwargs: dict[str, Any],
    ) -> list[Generation]:
        """What is to run for `chat`. RequestError, TemplateError."""
        with self._bounded("the prompt") as most:
            prompt = prepare_chat(
                self.template,
                self.tokenizer,
                messages,
                tools=tools,
                documents=documents,
                enable_thinking=enable_thinking,
                continue_final_message=continue_final_message,
                sanitize=sanitize,
                template_kwargs=template_kwargs,
                most=most,
            )
        rule = CallRule.of(prompt.tools, tool_choice, parallel_tool_calls)
        [p] = match_params(params, 1)
        guide: Callable[[], Guide | None] = no_guide
        if rule.binding or _guided(p):
            guide = self._guiding.prepare(p, rule, in_thought=prompt.in_thought)
        return self._build([prompt.ids], [p], [prompt.reader], options, [guide])

    @contextlib.contextmanager
    def _bounded(self, name: str) -> Iterator[int]:
        """How many tokens of a text are worth counting; within the block, more are a prompt that is too long.

        Somewhat too long is counted, to say by how much; far too long is given up.
        """
        most = max(4 * self.max_model_len, WORTH_COUNTING)
        try:
            yield most
        except TooManyTokensError:
            raise too_long(name, f"more than {most} tokens", self.max_model_len) from None

    def _build(
        self,
        prompts: list[list[int]],
        params: list[SamplingParams],
        readers: Sequence[Callable[[], Reader]],
        options: RequestOptions | None,
        guides: Sequence[Callable[[], Guide | None]],
    ) -> list[Generation]:
        if options is not None and not isinstance(options, RequestOptions):
            raise RequestError(f"options must be RequestOptions, one for all, not {shown(options)}")
        return build_generations(
            prompts,
            [p.with_defaults(self.default_params) for p in params],
            readers,
            tokenizer=self.tokenizer,
            vocabulary=self.vocabulary,
            context=self.max_model_len,
            options=options,
            guides=guides,
        )


def _guided(params: SamplingParams) -> bool:
    return params.structure is not None or params.thinking_budget is not None


def _check_size(name: str, value: int, *, least: int = 1, most: int = 2**31 - 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise RequestError(f"{name} must be a whole number from {least} to {most}, not {shown(value)}")


def _open(model: str | Path | Checkpoint, revision: str | None, offline: bool | None) -> Checkpoint:
    if not isinstance(model, Checkpoint):
        return load_checkpoint(model, revision=revision, offline=offline)
    if revision is not None or offline is not None:
        raise RequestError("revision and offline do nothing to a checkpoint that is open: leave them out")
    return model
