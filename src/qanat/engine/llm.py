"""`LLM`: a checkpoint, a backend and a scheduler, behind two calls: `generate` and `chat`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, overload

from qanat.backends import PackSource, choose_backend, open_backend
from qanat.checkpoint import Checkpoint, ModelConfig, load_checkpoint
from qanat.engine.chat import Tool, prepare_chat
from qanat.engine.defaults import params_like_transformers
from qanat.engine.generation import Generation, collect, stream_chunks
from qanat.engine.memory import PAGE, STEP_TOKENS, plan
from qanat.engine.readers import PlainReader, Reader
from qanat.engine.reply import Reply, ReplyChunk
from qanat.engine.requests import (
    Vocabulary,
    build_generations,
    check_ids,
    match_params,
    split_prompts,
)
from qanat.engine.sampling_params import SamplingParams, shown
from qanat.engine.scheduler import Scheduler
from qanat.errors import OutOfMemoryError, RequestError
from qanat.model import TextModel, require_runnable
from qanat.text import ChatTemplate, Tokenizer

__all__ = ["LLM"]

Prompt = str | list[int]
Prompts = list[str] | list[list[int]] | list[str | list[int]]
Params = SamplingParams | Sequence[SamplingParams] | None


class LLM:
    """A model that is ready to answer. Safe to use from several threads: their requests share batches.

    Args:
        model: a folder, "pocket" (the built-in model), a hub id, or what `load_checkpoint` returned.
        backend: "cpu" (Numba kernels), "reference" (NumPy: slow, readable), or "auto": the
            fastest one that has the weights mode.
        weights: "int8" (cpu only: whole numbers with a scale for 32 each), "bf16" (rounded to bfloat16),
            "f32" (reference only), or "auto": on the CPU int8, unless the model is so small that bfloat16 is
            as quick; on the reference what loses nothing.
        threads: how many compute (cpu only); None: the physical cores. No effect on the results.
        revision, offline: for hub ids, as in `load_checkpoint`.
        max_model_len: the longest prompt plus reply in tokens; None: the model's limit or 32768, less if the
            memory is short.
        max_batch: the most sequences computed at once; more wait.
        step_tokens: the most tokens of one step; longer prompts are read in chunks. No effect on the results.

    Raises:
        CheckpointError, ModelNotFoundError, UnsupportedError, TokenizerError: the model cannot be used.
        OutOfMemoryError: it does not fit; checked before anything is loaded.
        RequestError: an argument is out of range.
    """

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
    ) -> None:
        sizes = {"max_batch": max_batch, "step_tokens": step_tokens}
        if max_model_len is not None:
            sizes["max_model_len"] = max_model_len
        for name, value in sizes.items():
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
                raise RequestError(f"{name} must be a whole number from 1 to {2**31 - 1}, not {shown(value)}")
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
        )
        self.max_model_len = self.memory.context
        self.vocabulary = Vocabulary.of(self.tokenizer, self.checkpoint)
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
                step_tokens=step_tokens,
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
        """Whether no request is under way and all state is free."""
        return self._scheduler.idle

    @overload
    def generate(
        self, prompts: Prompt, params: Params = None, *, stream: Literal[False] = False
    ) -> Reply: ...
    @overload
    def generate(
        self, prompts: Prompts, params: Params = None, *, stream: Literal[False] = False
    ) -> list[Reply]: ...
    @overload
    def generate(
        self, prompts: Prompt | Prompts, params: Params = None, *, stream: Literal[True]
    ) -> Iterator[ReplyChunk]: ...

    def generate(
        self, prompts: Prompt | Prompts, params: Params = None, *, stream: bool = False
    ) -> Reply | list[Reply] | Iterator[ReplyChunk]:
        """Continue one prompt or several; several share batches, and a reply does not depend on the others.

        Args:
            prompts: a text, a list of token ids, or a list of these.
            params: for all, or one for each prompt. None: `default_params`.
            stream: return an iterator of chunks instead; closing it ends the requests.

        Returns:
            A Reply for one prompt, a list in the prompts' order for several.

        Raises:
            RequestError: an empty prompt, one longer than the context, or options out of range: at once, and
                before anything is computed. Also NumericalError while computing.
        """
        single, texts = split_prompts(prompts)
        ids = [self.tokenizer.encode(p) if isinstance(p, str) else p for p in texts]
        generations = self._build(ids, match_params(params, len(ids)), [PlainReader] * len(ids))
        if stream:
            return stream_chunks(self._scheduler, generations, self.tokenizer)
        replies = collect(self._scheduler, generations, self.tokenizer)
        return replies[0] if single else replies

    @overload
    def chat(
        self,
        messages: Any,
        params: SamplingParams | None = None,
        *,
        tools: Sequence[Tool] | None = None,
        documents: Sequence[dict[str, Any]] | None = None,
        enable_thinking: bool | None = None,
        continue_final_message: bool | str = False,
        stream: Literal[False] = False,
        sanitize: bool = False,
        **template_kwargs: Any,
    ) -> Reply: ...
    @overload
    def chat(
        self,
        messages: Any,
        params: SamplingParams | None = None,
        *,
        tools: Sequence[Tool] | None = None,
        documents: Sequence[dict[str, Any]] | None = None,
        enable_thinking: bool | None = None,
        continue_final_message: bool | str = False,
        stream: Literal[True],
        sanitize: bool = False,
        **template_kwargs: Any,
    ) -> Iterator[ReplyChunk]: ...

    def chat(
        self,
        messages: Any,
        params: SamplingParams | None = None,
        *,
        tools: Sequence[Tool] | None = None,
        documents: Sequence[dict[str, Any]] | None = None,
        enable_thinking: bool | None = None,
        continue_final_message: bool | str = False,
        stream: bool = False,
        sanitize: bool = False,
        **template_kwargs: Any,
    ) -> Reply | Iterator[ReplyChunk]:
        """Answer a conversation.

        Args:
            messages: dictionaries with `role` and `content`.
            params: None: `default_params`.
            tools: JSON schemas, or Python functions with type hints and a docstring.
            documents: for templates that read them.
            enable_thinking: let the model think first or not; None: as its template does by default.
            continue_final_message: go on with the last message instead of opening a new one.
            stream: return an iterator of chunks, with typed deltas; closing it ends the request.
            sanitize: control tokens such as `<|im_end|>` inside the messages are read as plain text.
            **template_kwargs: the template's other switches.

        Raises:
            RequestError: as `generate`; an image or video; a prompt that holds vision tokens.
            TemplateError: what the template refuses, in its words.
        """
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
        )
        generations = self._build([prompt.ids], match_params(params, 1), [prompt.reader])
        if stream:
            return stream_chunks(self._scheduler, generations, self.tokenizer)
        return collect(self._scheduler, generations, self.tokenizer)[0]

    def _build(
        self,
        prompts: list[list[int]],
        params: list[SamplingParams],
        readers: Sequence[Callable[[], Reader]],
    ) -> list[Generation]:
        return build_generations(
            prompts,
            [p.with_defaults(self.default_params) for p in params],
            readers,
            tokenizer=self.tokenizer,
            vocabulary=self.vocabulary,
            context=self.max_model_len,
        )


def _open(model: str | Path | Checkpoint, revision: str | None, offline: bool | None) -> Checkpoint:
    if not isinstance(model, Checkpoint):
        return load_checkpoint(model, revision=revision, offline=offline)
    if revision is not None or offline is not None:
        raise RequestError("revision and offline do nothing to a checkpoint that is open: leave them out")
    return model
