"""The comparisons behind `qanat verify`, each against transformers itself, running beside us."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qanat.cli.verify_inputs import conversations, texts
from qanat.errors import QanatError

if TYPE_CHECKING:
    from qanat.text import ChatTemplate, Tokenizer

__all__ = ["Check", "Judge", "check_decoding", "check_greedy", "check_ids", "check_logits", "check_prompts"]

SLACK = 1e-5
"""Absolute part of the tolerance on logits (docs/numerics.md)."""


@dataclass
class Check:
    """One line of the table."""

    name: str
    passed: int
    failed: int
    detail: str

    @property
    def fine(self) -> bool:
        """Whether nothing failed, and something was compared."""
        return self.failed == 0 and self.passed > 0


def _tally(name: str, differences: Sequence[str | None], fine: str) -> Check:
    """A check from one entry a comparison: None if equal, else what differed."""
    bad = [text for text in differences if text is not None]
    return Check(name, len(differences) - len(bad), len(bad), bad[0] if bad else fine)


def _outcome(call: Callable[[], str]) -> str:
    """What a rendering gives: the prompt, or the message that it was refused with."""
    try:
        return call()
    except QanatError as error:
        return f"refused: {error}"
    except Exception as error:  # transformers raises many kinds
        return f"refused: {error}"


def check_prompts(judge: Any, template: ChatTemplate) -> Check:
    """Conversations through both templates: the same prompt, or refused by both."""
    differences: list[str | None] = []
    for name, messages, options in conversations():
        theirs = _outcome(partial(judge.apply_chat_template, messages, tokenize=False, **options))
        ours = _outcome(partial(template.render, messages, **options))
        both_refuse = theirs.startswith("refused: ") and ours.startswith("refused: ")
        differences.append(None if theirs == ours or both_refuse else f"{name}: {_where(theirs, ours)}")
    return _tally("prompts", differences, "character for character")


def check_ids(judge: Any, tokenizer: Tokenizer, *, random_texts: int = 1000) -> Check:
    """Texts of many scripts, and random strings, through both tokenizers."""
    differences = []
    for text in texts(random_texts):
        theirs, ours = judge(text, add_special_tokens=False)["input_ids"], tokenizer.encode(text)
        differences.append(None if theirs == ours else f"{text[:40]!r}: {_where(theirs, ours)}")
    return _tally("token ids", differences, "on texts, code, scripts, control tokens and random strings")


def check_decoding(judge: Any, tokenizer: Tokenizer, *, sequences: int = 500) -> Check:
    """Random id sequences back to text, whole and streamed."""
    draw = random.Random(7)
    differences = []
    for number in range(sequences):
        ids = [draw.randrange(len(tokenizer)) for _ in range(draw.randint(1, 24))]
        skip = bool(number % 2)
        theirs = judge.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
        ours = tokenizer.decode(ids, skip_special_tokens=skip)
        stream = tokenizer.stream(skip_special_tokens=skip)
        streamed = "".join([*(stream.step(token) for token in ids), stream.flush()])
        same = theirs == ours == streamed
        differences.append(None if same else f"ids {ids[:6]}...: {_where(theirs, ours)}")
    return _tally("decoding", differences, "random ids, whole and streamed")


def _where(theirs: Sequence[Any], ours: Sequence[Any]) -> str:
    at = next(
        (i for i, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b), min(len(theirs), len(ours))
    )
    return f"at {at}: transformers {theirs[at : at + 12]!r}, qanat {ours[at : at + 12]!r}"


class Judge:
    """transformers' model in float32 on the CPU, and how far that is from the truth.

    The truth is the same model in float64 where there is memory for it. Otherwise the distance between two
    of its own float32 roads (the whole sequence at once, and token by token through its cache) stands in.
    """

    def __init__(self, model: Any, *, doubled: bool) -> None:
        self.model = model
        self.doubled = doubled
        self.logits: list[NDArray[np.float32]] = []
        self.truth: list[NDArray[np.float64]] = []

    def read(self, sequences: Sequence[Sequence[int]], waiting: Callable[[str], None]) -> None:
        """Teacher-forced logits of every sequence, in both precisions; `waiting` hears how far it is."""
        import torch

        with torch.no_grad():
            for number, ids in enumerate(sequences, 1):
                waiting(f"transformers, logits in float32: {number} of {len(sequences)}")
                self.logits.append(self.model(torch.tensor([list(ids)])).logits[0].float().numpy())
            if self.doubled:
                self.model.double()
            for number, ids in enumerate(sequences, 1):
                waiting(f"transformers, logits to compare with: {number} of {len(sequences)}")
                if self.doubled:
                    self.truth.append(self.model(torch.tensor([list(ids)])).logits[0].double().numpy())
                else:
                    self.truth.append(self._stepwise(ids))

    def greedy(
        self, prompt: Sequence[int], tokens: int, stop_ids: frozenset[int], dead: Sequence[int]
    ) -> list[int]:
        """The reply of `generate(do_sample=False)`, with every default that could differ set by hand."""
        import torch
        from transformers import GenerationConfig

        settings = GenerationConfig(
            do_sample=False,
            max_new_tokens=tokens,
            eos_token_id=sorted(stop_ids),
            pad_token_id=min(stop_ids),
            suppress_tokens=list(dead) or None,
        )
        ids = torch.tensor([list(prompt)])
        with torch.no_grad():
            out = self.model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
        return [int(token) for token in out[0, len(prompt) :]]

    def noise(self, sequence: int) -> float:
        """The largest error of its float32 logits in one sequence."""
        return float(np.abs(self.logits[sequence] - self.truth[sequence]).max())

    def _stepwise(self, ids: Sequence[int]) -> NDArray[np.float64]:
        import torch

        cache, rows = None, []
        for token in ids:
            out = self.model(torch.tensor([[token]]), past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            rows.append(out.logits[0, -1].double().numpy())
        return np.stack(rows)


def check_logits(name: str, judge: Judge, ours: Sequence[NDArray[np.float32]]) -> Check:
    """Every logit of every position: our error is at most three times transformers' own."""
    differences: list[str | None] = []
    worst, noise = 0.0, 0.0
    for number, rows in enumerate(ours):
        own, limit = float(np.abs(rows - judge.truth[number]).max()), 3 * judge.noise(number) + SLACK
        worst, noise = max(worst, own), max(noise, judge.noise(number))
        differences.append(
            None if own <= limit else f"sequence {number}: off by {own:.2g}, allowed {limit:.2g}"
        )
    against = "float64" if judge.doubled else "its token-by-token road"
    return _tally(
        name,
        differences,
        f"largest error {worst:.2g}; transformers' own {noise:.2g} (float32 against {against})",
    )


def check_greedy(
    judge: Judge, lengths: Sequence[int], sequences: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]
) -> Check:
    """Our greedy replies against `generate(do_sample=False)`, token for token.

    Where they part, transformers' own logits must have been so close there that its rounding decided; what
    follows cannot be compared then.

    Args:
        judge: has read `sequences`.
        lengths: how many tokens of each sequence are prompt; the rest is our greedy reply.
        sequences: prompt and reply.
        theirs: transformers' replies.
    """
    differences: list[str | None] = []
    ties = 0
    for number, (length, ids, reply) in enumerate(zip(lengths, sequences, theirs, strict=True)):
        ours = ids[length:]
        at = next((i for i, (a, b) in enumerate(zip(ours, reply, strict=False)) if a != b), None)
        if at is None:
            same = len(ours) == len(reply)
            differences.append(
                None if same else f"prompt {number}: qanat {len(ours)} tokens, transformers {len(reply)}"
            )
            continue
        row = judge.logits[number][length + at - 1]
        margin = float(row[reply[at]] - row[ours[at]])
        rounding = 2 * judge.noise(number)  # two logits, each off by the noise
        ties += margin <= rounding
        differences.append(
            None
            if margin <= rounding
            else f"prompt {number}, token {at}: qanat {ours[at]}, transformers {reply[at]}, "
            f"ahead by {margin:.2g} (rounding {rounding:.2g})"
        )
    tied = f"; {ties} parted at a tie within its rounding" if ties else ""
    return _tally("greedy replies", differences, f"token for token{tied}")
