"""`LLM`: a model behind two calls, `generate` and `chat`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, overload

from qanat.engine.chat import Tool
from qanat.engine.core import Engine, Params, Prompt, Prompts
from qanat.engine.generation import collect, stream_chunks
from qanat.engine.progress import progress_bar
from qanat.engine.reply import Reply, ReplyChunk
from qanat.engine.request_options import RequestOptions
from qanat.engine.sampling_params import SamplingParams
from qanat.errors import RequestError

__all__ = ["LLM"]


class LLM(Engine):
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
        memory: the most bytes to take, weights included; None: nine tenths of what is free.
        snapshots: the most prefixes whose state is kept for later requests; None: as memory allows, 0: none.
            No effect on the results.
        max_waiting: the most sequences in the queue beyond those that run; None: any number.
        debug: check after every step that no state is lost or has a wrong owner (slower).

    Raises:
        CheckpointError, ModelNotFoundError, UnsupportedError, TokenizerError: the model cannot be used.
        OutOfMemoryError: it does not fit; checked before anything is loaded.
        RequestError: an argument is out of range.
    """

    @overload
    def generate(
        self,
        prompts: Prompt,
        params: Params = None,
        *,
        stream: Literal[False] = False,
        options: RequestOptions | None = None,
        progress: bool = False,
    ) -> Reply: ...
    @overload
    def generate(
        self,
        prompts: Prompts,
        params: Params = None,
        *,
        stream: Literal[False] = False,
        options: RequestOptions | None = None,
        progress: bool = False,
    ) -> list[Reply]: ...
    @overload
    def generate(
        self,
        prompts: Prompt | Prompts,
        params: Params = None,
        *,
        stream: Literal[True],
        options: RequestOptions | None = None,
    ) -> Iterator[ReplyChunk]: ...

    def generate(
        self,
        prompts: Prompt | Prompts,
        params: Params = None,
        *,
        stream: bool = False,
        options: RequestOptions | None = None,
        progress: bool = False,
    ) -> Reply | list[Reply] | Iterator[ReplyChunk]:
        """Continue one prompt or several; several share batches, and a reply does not depend on the others.

        Args:
            prompts: a text, a list of token ids, or a list of these.
            params: for all, or one for each prompt. None: `default_params`.
            stream: return an iterator of chunks instead; closing it ends the requests.
            options: priority, time limit and the salt of the prefix cache. No effect on the results.
            progress: show a progress bar on the standard error.

        Returns:
            A Reply for one prompt, a list in the prompts' order for several.

        Raises:
            RequestError: an empty prompt, one longer than the context, or options out of range: at once, and
                before anything is computed.
            QueueFullError: more wait than `max_waiting`; of a stream, when it is first read.
            NumericalError, DeadlineError: while computing.
        """
        if stream and progress:
            raise RequestError("a stream has no progress bar: leave progress out, or stream")
        single, generations = self.of_prompts(prompts, params, options)
        if stream:
            return stream_chunks(self._scheduler, generations, self.tokenizer)
        with progress_bar(len(generations), shown=progress) as on_reply:
            replies = collect(self._scheduler, generations, self.tokenizer, on_reply)
        return replies[0] if single else replies

    @overload
    def chat(
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
        stream: Literal[False] = False,
        options: RequestOptions | None = None,
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
        tool_choice: str | dict[str, Any] = "auto",
        parallel_tool_calls: bool = True,
        documents: Sequence[dict[str, Any]] | None = None,
        enable_thinking: bool | None = None,
        continue_final_message: bool | str = False,
        stream: Literal[True],
        options: RequestOptions | None = None,
        sanitize: bool = False,
        **template_kwargs: Any,
    ) -> Iterator[ReplyChunk]: ...

    def chat(
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
        stream: bool = False,
        options: RequestOptions | None = None,
        sanitize: bool = False,
        **template_kwargs: Any,
    ) -> Reply | Iterator[ReplyChunk]:
        """Answer a conversation.

        Args:
            messages: dictionaries with `role` and `content`.
            params: None: `default_params`.
            tools: JSON schemas, or Python functions with type hints and a docstring.
            tool_choice: "auto": the model calls tools or not; "required": it calls at least one and says
                nothing else; {"type": "function", "function": {"name": ...}}: it calls this one, once.
            parallel_tool_calls: whether it may call more than one.
            documents: for templates that read them.
            enable_thinking: let the model think first or not; None: as its template does by default.
            continue_final_message: go on with the last message instead of opening a new one.
            stream: return an iterator of chunks, with typed deltas; closing it ends the request.
            options: as in `generate`.
            sanitize: control tokens such as `<|im_end|>` inside the messages are read as plain text.
            **template_kwargs: the template's other switches.

        Raises:
            RequestError: as `generate`; an image or video; a prompt that holds vision tokens.
            TemplateError: what the template refuses, in its words.
        """
        generations = self.of_conversation(
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
            template_kwargs=template_kwargs,
        )
        if stream:
            return stream_chunks(self._scheduler, generations, self.tokenizer)
        return collect(self._scheduler, generations, self.tokenizer)[0]
