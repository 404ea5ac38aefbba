"""From what a caller gave to sequences that can run: everything is checked here, before any work is done."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qanat.checkpoint import Checkpoint
from qanat.engine import sequence
from qanat.engine.generation import Generation
from qanat.engine.guide import Guide, no_guide
from qanat.engine.marks import snapshot_marks
from qanat.engine.readers import Reader
from qanat.engine.request_options import RequestOptions
from qanat.engine.sampling_params import SamplingParams, shown
from qanat.engine.stop_strings import StopStrings
from qanat.engine.text_output import TextOutput
from qanat.errors import ContextLengthError, RequestError
from qanat.text import Tokenizer

__all__ = ["Vocabulary", "build_generations", "check_ids", "match_params", "split_prompts", "too_long"]

_END_TOKENS = ("<|im_end|>", "<|endoftext|>")
_TURN_TOKEN = "<|im_start|>"
_TURN = _TURN_TOKEN + "assistant\n"
_VISION_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")


@dataclass(frozen=True)
class Vocabulary:
    """What the engine knows of token ids."""

    rows: int
    """Rows of the embedding: an id of a prompt lies below."""
    live: int
    """Ids from here on have no token and are never chosen."""
    end_ids: frozenset[int]
    """The model's own end tokens: the union of all places that name one."""
    vision_ids: frozenset[int]
    """Placeholders that mean nothing without a vision tower."""
    turn_ids: tuple[int, ...]
    """What opens an assistant's turn: `<|im_start|>assistant\n`; empty if there is no such token."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, checkpoint: Checkpoint) -> Vocabulary:
        """Collect it from tokenizer and checkpoint."""
        rows = checkpoint.config.text.vocab_size
        live = min(rows, tokenizer.largest_id + 1)
        named = {tokenizer.token_id(t) for t in _END_TOKENS} | {tokenizer.eos_token_id}
        end_ids = checkpoint.stop_ids | {i for i in named if i is not None}
        vision = {tokenizer.token_id(t) for t in _VISION_TOKENS}
        return cls(
            rows,
            live,
            frozenset(i for i in end_ids if i < live),
            frozenset(i for i in vision if i is not None),
            () if tokenizer.token_id(_TURN_TOKEN) is None else tuple(tokenizer.encode(_TURN)),
        )


def split_prompts(prompts: Any) -> tuple[bool, list[str | list[int]]]:
    """Whether one prompt was given, and the prompts as a list: texts and lists of ids may be mixed."""
    if isinstance(prompts, str):
        return True, [prompts]
    if isinstance(prompts, np.ndarray):
        prompts = prompts.tolist()
    if not isinstance(prompts, Sequence) or isinstance(prompts, bytes | bytearray | memoryview):
        raise RequestError(f"a prompt must be a text or a list of token ids, not {type(prompts).__name__}")
    if not prompts:
        raise RequestError("the prompt is empty: give a text, token ids, or a list of prompts")
    if _is_id(prompts[0]):
        return True, [_ids(prompts)]
    return False, [p if isinstance(p, str) else _ids(p) for p in prompts]


def _is_id(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _ids(prompt: Any) -> list[int]:
    if isinstance(prompt, np.ndarray):
        prompt = prompt.tolist()
    if (
        isinstance(prompt, str | bytes | bytearray | memoryview)
        or not isinstance(prompt, Sequence)
        or not all(_is_id(i) for i in prompt)
    ):
        raise RequestError("a prompt must be a text or a list of token ids (whole numbers)")
    return [int(i) for i in prompt]


def match_params(
    params: SamplingParams | Sequence[SamplingParams] | None, count: int
) -> list[SamplingParams]:
    """One SamplingParams for each prompt."""
    if params is None:
        return [SamplingParams()] * count
    if isinstance(params, SamplingParams):
        return [params] * count
    if not isinstance(params, Sequence) or not all(isinstance(p, SamplingParams) for p in params):
        raise RequestError(f"params must be a SamplingParams or a list of them, not {type(params).__name__}")
    if len(params) != count:
        raise RequestError(f"{count} prompts but {len(params)} SamplingParams: give one for all, or one each")
    return list(params)


def build_generations(
    prompts: Sequence[list[int]],
    params: Sequence[SamplingParams],
    readers: Sequence[Callable[[], Reader]],
    *,
    tokenizer: Tokenizer,
    vocabulary: Vocabulary,
    context: int,
    options: RequestOptions | None = None,
    guides: Sequence[Callable[[], Guide | None]] | None = None,
) -> list[Generation]:
    """The sequences of all prompts, `n` for each, in order. The time that they have begins now.

    readers and guides: of each prompt, what makes those of a reply to it.

    Raises:
        RequestError: a prompt is empty, too long, or holds ids that cannot be; an option names such ids; or a
            guide cannot be made.
    """
    options = options or RequestOptions()
    guides = guides or [no_guide] * len(prompts)
    generations = []
    deadline = None if options.timeout is None else time.monotonic() + options.timeout
    for index, (ids, p, reader, guide) in enumerate(zip(prompts, params, readers, guides, strict=True)):
        _check_prompt(ids, "the prompt" if len(prompts) == 1 else f"prompt {index}", vocabulary, context)
        check_ids(p, vocabulary)
        stops, stop_ids = _split_stops(p, tokenizer)
        seed = p.seed if p.seed is not None else secrets.randbits(63) if p.temperature else 0
        left = context - len(ids)
        marks = snapshot_marks(ids, vocabulary.turn_ids, choices=p.n)
        leader = None
        for choice in range(p.n):
            text = TextOutput(
                tokenizer.stream(skip_special_tokens=p.skip_special_tokens),
                StopStrings(stops, include=p.include_stop),
            )
            item = sequence.Sequence(
                ids,
                p,
                seed=seed,
                choice_index=choice,
                limit=left if p.max_tokens is None else min(p.max_tokens, left),
                end_ids=frozenset() if p.ignore_eos else vocabulary.end_ids,
                stop_ids=stop_ids,
                text=text,
                marks=marks,
                priority=options.priority,
                salt=options.cache_salt,
                leader=leader,
                deadline=deadline,
                guide=guide(),
                tells_progress=options.progress and leader is None,
            )
            leader = leader or item
            generations.append(Generation(item, reader(), index))
    return generations


def _check_prompt(ids: list[int], name: str, vocabulary: Vocabulary, context: int) -> None:
    if not ids:
        raise RequestError(f"{name} is empty: give at least one token")
    if len(ids) >= context:
        raise too_long(name, f"{len(ids)} tokens", context)
    wrong = next((i for i in ids if not 0 <= i < vocabulary.rows), None)
    if wrong is not None:
        raise RequestError(
            f"{name} holds the token id {shown(wrong)}; the model's vocabulary has {vocabulary.rows}"
        )
    if not vocabulary.vision_ids.isdisjoint(ids):
        raise RequestError(f"{name} holds image or video tokens: qanat has no vision tower yet")


def too_long(name: str, length: str, context: int) -> ContextLengthError:
    """The refusal of a prompt that fills the context."""
    return ContextLengthError(
        f"{name} has {length}, but this model's maximum context length is {context}, reply included: "
        "shorten it, or raise max_model_len"
    )


def check_ids(params: SamplingParams, vocabulary: Vocabulary) -> None:
    """Raise RequestError if an option names an id that has no token."""
    for name, ids in (("logit_bias", params.logit_bias), ("stop_token_ids", params.stop_token_ids)):
        wrong = next((i for i in ids if i >= vocabulary.live), None)
        if wrong is not None:
            raise RequestError(
                f"{name} names token id {shown(wrong)}; the last token is {vocabulary.live - 1}"
            )


def _split_stops(params: SamplingParams, tokenizer: Tokenizer) -> tuple[list[str], frozenset[int]]:
    """Stop texts to look for, and stop ids: a stop text that is a special token never shows in the text."""
    ids = set(params.stop_token_ids)
    if not params.stops or not params.skip_special_tokens:
        return list(params.stops), frozenset(ids)
    texts = []
    special = {tokenizer.token_text(i): i for i in tokenizer.special_ids}
    for stop in params.stops:
        if stop in special:
            ids.add(special[stop])
        elif any(token in stop for token in special):
            raise RequestError(
                f"stop {stop!r} holds a special token, which the text leaves out: use stop_token_ids, or "
                "skip_special_tokens=False"
            )
        else:
            texts.append(stop)
    return texts, frozenset(ids)
