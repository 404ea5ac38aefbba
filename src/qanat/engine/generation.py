"""Running sequences to replies: whole, or as chunks while they grow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from qanat.engine import sequence
from qanat.engine.readers import Reader
from qanat.engine.reply import Alternative, PromptProgress, Reply, ReplyChunk, TokenLogprob, Usage
from qanat.engine.scheduler import Scheduler
from qanat.model.sampling import Choice
from qanat.text import Tokenizer
from qanat.text.dialects import ReplyDelta

__all__ = ["Generation", "Growing", "by_prompt", "collect", "stream_chunks"]


@dataclass
class Generation:
    """A sequence, what reads its text, and which prompt it belongs to."""

    sequence: sequence.Sequence
    reader: Reader
    prompt_index: int


def collect(
    scheduler: Scheduler,
    generations: Sequence[Generation],
    tokenizer: Tokenizer,
    on_reply: Callable[[Reply], None] = lambda reply: None,
) -> list[Reply]:
    """Run all to their ends; one reply per prompt, in order, the further choices in its `alternatives`.

    on_reply is called with each reply as it ends.
    """
    ended = []
    for chunk in stream_chunks(scheduler, generations, tokenizer):
        if chunk.reply is not None:
            on_reply(chunk.reply)
            ended.append(chunk)
    return by_prompt(ended)


def by_prompt(ended: Iterable[ReplyChunk]) -> list[Reply]:
    """The last chunks of all replies become one reply per prompt."""
    replies: dict[int, dict[int, Reply]] = {}
    for chunk in ended:
        assert chunk.reply is not None
        replies.setdefault(chunk.prompt_index, {})[chunk.choice_index] = chunk.reply
    choices = ([by_choice[c] for c in sorted(by_choice)] for _, by_choice in sorted(replies.items()))
    return [replace(first, alternatives=tuple(others)) for first, *others in choices]


def stream_chunks(
    scheduler: Scheduler, generations: Sequence[Generation], tokenizer: Tokenizer
) -> Iterator[ReplyChunk]:
    """Run all, yielding chunks as tokens come. Closing the iterator, or an error, frees what is left."""
    growing = Growing(generations, tokenizer)
    try:
        scheduler.submit(growing.sequences)
        while growing:
            scheduler.advance(growing.has_news)
            yield from growing.news()
    finally:
        scheduler.cancel(growing.sequences)
        growing.close()


class Growing:
    """Replies in the making. False when all have ended and were given out.

    on_news: called by whoever computes, each time that `has_news` has become true.
    """

    def __init__(
        self,
        generations: Sequence[Generation],
        tokenizer: Tokenizer,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self.sequences = [g.sequence for g in generations]
        self._logprobs: dict[int, list[TokenLogprob]] = {id(g): [] for g in generations}
        """Of every reply that has not been given out to its end."""
        self._tokenizer = tokenizer
        self._on_news = on_news
        # Sequences report themselves: to look at each of thousands after a step takes longer than the step.
        self._news: deque[Generation] = deque()
        for g in generations:
            g.sequence.notify = partial(self._grown, g)

    def _grown(self, g: Generation) -> None:
        self._news.append(g)
        self._on_news()

    def close(self) -> None:
        """Listen no more: what refers to itself in a circle waits for the garbage collector."""
        for s in self.sequences:
            s.notify = sequence.nobody

    def __bool__(self) -> bool:
        return bool(self._logprobs)

    def has_news(self) -> bool:
        """Whether `news` may give something."""
        return bool(self._news)

    def news(self) -> Iterator[ReplyChunk]:
        """A chunk for each reply that has grown or ended since the last call. Raises what ended one early."""
        grown = {id(g): g for g in (self._news.popleft() for _ in range(len(self._news)))}
        for key, g in grown.items():
            if key not in self._logprobs:
                continue
            if g.sequence.error is not None:
                raise g.sequence.error
            done = g.sequence.done
            logprobs = self._logprobs.pop(key) if done else self._logprobs[key]
            if done or g.sequence.pieces:
                yield _chunk(g, logprobs, self._tokenizer, done=done)
            elif g.sequence.tells_progress and not g.sequence.output_len:
                yield _progress(g)


def _progress(g: Generation) -> ReplyChunk:
    s = g.sequence
    told = PromptProgress(s.prompt_len, s.cached or 0, min(s.computed, s.prompt_len))
    return ReplyChunk(prompt_index=g.prompt_index, progress=told)


def _chunk(g: Generation, logprobs: list[TokenLogprob], tokenizer: Tokenizer, *, done: bool) -> ReplyChunk:
    s = g.sequence
    pieces = [s.pieces.popleft() for _ in range(len(s.pieces))]
    deltas = list(chain.from_iterable(g.reader.feed(piece.text) for piece in pieces if piece.text))
    new = None
    if s.params.logprobs is not None:
        new = tuple(_logprob(piece.choice, tokenizer) for piece in pieces)
        logprobs.extend(new)
    reply = None
    if done:
        last, reply = _finish(g, tuple(logprobs) if new is not None else None, tokenizer)
        deltas += last
    return ReplyChunk(
        text="".join(d.text for d in deltas if d.kind == "content"),
        reasoning="".join(d.text for d in deltas if d.kind == "reasoning"),
        deltas=tuple(deltas),
        token_ids=tuple(piece.choice.token for piece in pieces),
        logprobs=new,
        prompt_index=g.prompt_index,
        choice_index=s.choice_index,
        reply=reply,
    )


def _finish(
    g: Generation, logprobs: tuple[TokenLogprob, ...] | None, tokenizer: Tokenizer
) -> tuple[list[ReplyDelta], Reply]:
    s = g.sequence
    assert s.finish_reason is not None
    token_ids = tuple(s.output.tolist())
    prompt_logprobs = None
    if s.params.prompt_logprobs is not None:
        prompt_logprobs = (None, *(_logprob(choice, tokenizer) for choice in s.prompt_choices))
    deltas, reading = g.reader.finish(s.finish_reason, token_ids)
    return deltas, Reply(
        text=reading.text,
        reasoning=reading.reasoning,
        tool_calls=reading.tool_calls,
        token_ids=token_ids,
        finish_reason=reading.finish_reason,
        usage=Usage(s.prompt_len, s.output_len, reading.reasoning_tokens, s.cached or 0),
        logprobs=logprobs,
        seed=s.seed,
        prompt_logprobs=prompt_logprobs,
        choice_index=s.choice_index,
    )


def _logprob(choice: Choice, tokenizer: Tokenizer) -> TokenLogprob:
    assert choice.logprob is not None
    top = tuple(_alternative(token, logprob, tokenizer) for token, logprob in choice.top)
    own = _alternative(choice.token, choice.logprob, tokenizer)
    return TokenLogprob(own.token_id, own.token, own.bytes, own.logprob, top)


def _alternative(token: int, logprob: float, tokenizer: Tokenizer) -> Alternative:
    return Alternative(token, tokenizer.token_text(token), tokenizer.token_bytes(token), logprob)
