"""Opening a model for the command line, and carrying its stream of chunks to the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qanat.cli.options import ModelOptions
from qanat.cli.output import StreamPrinter, bytes_text, note
from qanat.cli.speed import Stopwatch
from qanat.cli.terminal import Status

if TYPE_CHECKING:
    from qanat.checkpoint import Checkpoint
    from qanat.engine import LLM, Reply
    from qanat.engine.memory import MemoryPlan
    from qanat.engine.reply import TokenLogprob

LARGE = 500_000_000
"""Bytes from which loading takes long enough to be announced."""
MINIATURE = 8_000_000
"""Bytes up to which NumPy makes a short reply in less time than it takes to load Numba (0.7 s)."""

__all__ = [
    "LARGE",
    "Partial",
    "announce_model",
    "count_prompt",
    "open_model",
    "plan_memory",
    "read_bytes_per_token",
    "reply_as_json",
    "stream_reply",
]


def open_model(options: ModelOptions, *, brief: bool = False, sequences: int = 1) -> LLM:
    """Load a model for so many sequences at once; of a large one, say first what it will take.

    With `brief`, one short prompt is all that will come: a miniature has answered it with the reference
    backend before compiled kernels would be loaded.
    """
    from qanat.engine import LLM

    checkpoint = _open(options, sequences)
    backend, weights = options.backend.value, options.weights.value
    if brief and (backend, weights, options.threads) == ("auto", "auto", None):
        backend = "reference" if checkpoint.total_bytes <= MINIATURE else backend
    _announce_compilation(checkpoint, backend, options, sequences)
    status = Status(worth_a_line=False)  # off the screen the announcement is the line
    try:
        status.show(f"loading the weights, {bytes_text(checkpoint.total_bytes)}")
        return LLM(
            checkpoint,
            backend=backend,
            weights=weights,
            threads=options.threads,
            max_model_len=options.max_model_len,
            max_batch=sequences,
            memory=options.memory_bytes,
        )
    finally:
        status.clear()


def announce_model(options: ModelOptions, *, sequences: int) -> None:
    """Say what another process is going to load; fetch it from the hub where it has to be."""
    checkpoint = _open(options, sequences)
    _announce_compilation(checkpoint, options.backend.value, options, sequences)


def _open(options: ModelOptions, sequences: int) -> Checkpoint:
    """Map the files, and read no weights; what a large model will take is said."""
    from qanat.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(options.model, revision=options.revision, offline=options.offline or None)
    if checkpoint.total_bytes > LARGE:
        _announce(checkpoint, options, sequences)
    return checkpoint


def _announce(checkpoint: Checkpoint, options: ModelOptions, sequences: int) -> None:
    from qanat.engine.memory import available_bytes

    planned = plan_memory(checkpoint, options.backend.value, options, sequences)
    free = available_bytes()
    room = "" if free is None else f" of {bytes_text(free)} free"
    note(
        f"loading {checkpoint.name}: {bytes_text(planned.estimate.total)}{room}; "
        f"{planned.weights} weights, {sequences} at once, context up to {planned.context} tokens, "
        f"{planned.snapshots} prefixes kept"
    )


def plan_memory(
    checkpoint: Checkpoint,
    backend: str,
    options: ModelOptions,
    sequences: int,
    available: int | None = None,
) -> MemoryPlan:
    """What the model will take, as `open_model` plans it too. available: bytes, if not those of here."""
    from qanat.backends import choose_backend
    from qanat.engine.memory import plan

    weights = options.weights.value
    return plan(
        checkpoint.config.text,
        backend=choose_backend(backend, weights, options.threads),
        weights=weights,
        context=options.max_model_len,
        sequences=sequences,
        stored_bf16=checkpoint.stored_in_bfloat16,
        limit=options.memory_bytes,
        available=available,
    )


def _announce_compilation(
    checkpoint: Checkpoint, backend: str, options: ModelOptions, sequences: int
) -> None:
    """The first use of the CPU backend compiles its kernels: say so before half a minute of silence."""
    from qanat.backends import choose_backend

    if choose_backend(backend, options.weights.value, options.threads) != "cpu":
        return
    from qanat.backends.cpu.kernel_cache import compilation_notice
    from qanat.backends.cpu.pack_cache import limit_bytes

    limit_bytes()  # refused before anything is announced
    notice = compilation_notice(plan_memory(checkpoint, backend, options, sequences).weights)
    if notice:
        note(notice)


def count_prompt(llm: LLM, messages: Any, **options: Any) -> int:
    """How many tokens `llm.chat` will read; `options` are those that it gets."""
    from qanat.engine.chat import prepare_chat

    usual = {"tools": None, "documents": None, "enable_thinking": None, "sanitize": False}
    options = {**usual, "continue_final_message": False, **options}
    return len(prepare_chat(llm.template, llm.tokenizer, messages, template_kwargs={}, **options).ids)


@dataclass
class Partial:
    """What has arrived of a reply, so that an interrupted one is not lost."""

    content: str = ""
    reasoning: str = ""
    tokens: int = 0
    watch: Stopwatch = field(default_factory=Stopwatch)


def stream_reply(
    stream: Iterator[Any],
    printer: StreamPrinter | None,
    partial: Partial | None = None,
    *,
    prompt_tokens: Callable[[], int | None],
) -> tuple[Any, Stopwatch]:
    """Print a stream as it arrives (not at all without a printer) and return the whole reply.

    However it ends - an error, Ctrl-C - the stream is closed, so that the engine frees what it held, and the
    screen is left in order. Until the first token a screen is told that the prompt is being read; its tokens
    are counted only for that. Chunks are the engine's `ReplyChunk`, or a server's `RemoteChunk`.
    """
    status = Status(worth_a_line=False)
    if status.screen:
        tokens = prompt_tokens()
        status.show("waiting for the server" if tokens is None else f"reading the prompt ({tokens} tokens)")
    watch = Stopwatch()
    if partial is not None:
        partial.watch = watch
    reply = None
    try:
        with closing(stream) as chunks:  # type: ignore[type-var]
            for chunk in chunks:
                ids = getattr(chunk, "token_ids", ())  # a server tells texts, not ids
                if ids or chunk.text or chunk.reasoning:
                    status.clear()
                    watch.token()
                if partial is not None:
                    partial.tokens += len(ids)
                    partial.content += chunk.text
                    partial.reasoning += chunk.reasoning
                if printer is not None:
                    printer.reasoning(chunk.reasoning)
                    printer.content(chunk.text)
                reply = chunk.reply or reply
        assert reply is not None, "the stream ended without a reply"
        if printer is not None:
            for call in reply.tool_calls:
                printer.tool_call(call.name, call.arguments)
    finally:
        status.clear()
        if printer is not None:
            printer.finish()
    return reply, watch


def read_bytes_per_token(llm: LLM) -> int:
    """Bytes of weights that decoding one token reads, in the format they are held in."""
    from qanat.backends import storage

    values = llm.config.text.bytes_read_per_token // 2
    return round(values * storage(llm.backend, llm.memory.weights).weight)


def reply_as_json(llm: LLM, reply: Reply) -> dict[str, Any]:
    """A reply as one JSON object."""
    return {
        "model": str(llm.checkpoint.name),
        "text": reply.text,
        "reasoning": reply.reasoning,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.tool_calls
        ],
        "token_ids": list(reply.token_ids),
        "finish_reason": reply.finish_reason,
        "usage": {
            "prompt_tokens": reply.usage.prompt_tokens,
            "completion_tokens": reply.usage.completion_tokens,
            "reasoning_tokens": reply.usage.reasoning_tokens,
            "total_tokens": reply.usage.total_tokens,
            "cached_tokens": reply.usage.cached_tokens,
        },
        "seed": reply.seed,
        "logprobs": _logprobs(reply.logprobs),
        "prompt_logprobs": _logprobs(reply.prompt_logprobs),
    }


def _logprobs(entries: Sequence[TokenLogprob | None] | None) -> list[dict[str, Any] | None] | None:
    return None if entries is None else [None if entry is None else _logprob(entry) for entry in entries]


def _logprob(entry: TokenLogprob) -> dict[str, Any]:
    return {**_alternative(entry), "top": [_alternative(other) for other in entry.top]}


def _alternative(token: Any) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "token": token.token,
        "bytes": list(token.bytes),
        # Raw logits are finite, but a probability may round to 0, whose logarithm JSON cannot express.
        "logprob": max(token.logprob, -9999.0),
    }
