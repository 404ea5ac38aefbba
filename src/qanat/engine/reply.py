"""What a request gives back: a reply, whole or in chunks."""

from __future__ import annotations

from dataclasses import dataclass

from qanat.engine.sequence import FinishReason
from qanat.text.dialects import ReplyDelta, ToolCall

__all__ = ["Alternative", "PromptProgress", "Reply", "ReplyChunk", "TokenLogprob", "Usage"]


@dataclass(frozen=True)
class Usage:
    """Token counts of one reply."""

    prompt_tokens: int
    completion_tokens: int
    """All generated tokens, the end token included."""
    reasoning_tokens: int = 0
    """Those of a thought that the prompt had opened, `</think>` included."""
    cached_tokens: int = 0
    """Those of the prompt whose state was there already, from an earlier request."""

    @property
    def total_tokens(self) -> int:
        """Prompt and reply."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Alternative:
    """A token that could have stood in a place, and how likely it was there."""

    token_id: int
    token: str
    """Its text; bytes that are no whole character show as U+FFFD."""
    bytes: bytes
    logprob: float
    """Natural logarithm of the probability under the raw logits, before any processor."""


@dataclass(frozen=True)
class TokenLogprob(Alternative):
    """A token of reply or prompt, and the most likely ones in its place (docs/numerics.md, "Sampling")."""

    top: tuple[Alternative, ...] = ()
    """The most likely first. The token itself need not be among them."""


@dataclass(frozen=True)
class Reply:
    """A finished reply."""

    text: str
    """`generate`: all text. `chat`: the answer, without thought and tool calls ("" if there is none)."""
    reasoning: str | None
    """The thought; None if there was none, and always with `generate`."""
    tool_calls: tuple[ToolCall, ...]
    token_ids: tuple[int, ...]
    """Every generated id, the end token included."""
    finish_reason: FinishReason
    """"stop": an end token or stop text; "length": max_tokens or the context's end; "tool_calls"."""
    usage: Usage
    logprobs: tuple[TokenLogprob, ...] | None
    """One entry for each of token_ids, if they were asked for."""
    seed: int
    """The seed that was used: with it the same request gives the same tokens."""
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    """One entry for each token of the prompt, if they were asked for; None for the first."""
    choice_index: int = 0
    alternatives: tuple[Reply, ...] = ()
    """With n > 1: the other n - 1 replies to the same prompt."""


@dataclass(frozen=True)
class PromptProgress:
    """How far a prompt has been read, in tokens."""

    total: int
    cached: int
    """Whose state was there already, from an earlier request."""
    read: int
    """Those of the cache included."""


@dataclass(frozen=True)
class ReplyChunk:
    """What became certain since the chunk before. Joined, the texts of all chunks are the reply's."""

    text: str = ""
    """New text of the answer."""
    reasoning: str = ""
    """New text of the thought."""
    deltas: tuple[ReplyDelta, ...] = ()
    """`chat` only: the same and the pieces of tool calls, typed and in order."""
    token_ids: tuple[int, ...] = ()
    """New ids; their text may come in a later chunk."""
    logprobs: tuple[TokenLogprob, ...] | None = None
    prompt_index: int = 0
    """Which prompt of the list."""
    choice_index: int = 0
    """Which of the n replies to it."""
    reply: Reply | None = None
    """The whole reply, with the last chunk of each."""
    progress: PromptProgress | None = None
    """Only if `RequestOptions.progress` asks for it, and then with nothing else: the reply has not begun."""
