"""What one reply may say next: a thought of bounded length, then text of a form, or calls of tools.

A guide is a row of stages. Each tells what may come next and looks at what came, until it is done; after
the last one everything may come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from qanat.engine.grammars import Matcher
from qanat.model.sampling import WORD_BITS

__all__ = ["FREE", "Bytes", "Calls", "Fixed", "Form", "Guide", "Limits", "Stage", "Thought", "no_guide"]

Bytes = Callable[[int], bytes]
"""What a token adds to the text of the reply: nothing, if it is left out of it."""


@dataclass(frozen=True)
class Limits:
    """Of the next token; fields as in `SamplingRow`."""

    forced: int | None = None
    allowed: NDArray[np.uint32] | None = None
    banned: NDArray[np.int32] | None = None

    @property
    def only(self) -> int | None:
        """The token, if there is no choice."""
        if self.forced is not None or self.allowed is None:
            return self.forced
        [words] = np.nonzero(self.allowed)
        if len(words) != 1:
            return None
        word = int(self.allowed[words[0]])
        return None if word & (word - 1) else int(words[0]) * WORD_BITS + word.bit_length() - 1


FREE = Limits()


def no_guide() -> None:
    """The guide of a reply that may say anything."""


class Stage(Protocol):
    """A part of a reply."""

    @property
    def done(self) -> bool:
        """Whether what comes next is the next stage's."""

    def limits(self) -> Limits:
        """What may come next. RequestError if that cannot be told."""

    def accept(self, token: int) -> None:
        """What came. RequestError as `limits`."""


class Guide:
    """One reply's stages. RequestError, here and in `accept`: what may come cannot be told."""

    def __init__(self, stages: Iterable[Stage]) -> None:
        self._stages = list(stages)
        self.limits = FREE
        self._look()

    def accept(self, token: int) -> None:
        """Take the token that was chosen; `limits` is about the next one then."""
        if self._stages:
            self._stages[0].accept(token)
            self._look()

    def _look(self) -> None:
        while self._stages and self._stages[0].done:
            del self._stages[0]
        self.limits = self._stages[0].limits() if self._stages else FREE


class Thought:
    """Until the thought is closed.

    Args:
        bytes_of: of a token.
        closing: tokens that close it.
        budget: after so many tokens they are put in; None: whenever the model does.
        banned: tokens that would end the reply, if more has to follow.
    """

    def __init__(
        self, bytes_of: Bytes, closing: Sequence[int], budget: int | None, banned: NDArray[np.int32]
    ) -> None:
        self.done = False
        self._end = _Watch(b"</think>", bytes_of)
        self._closing = closing
        self._budget = budget
        self._free = Limits(banned=banned)
        self._count = 0

    def limits(self) -> Limits:
        """Anything within the budget."""
        if self._budget is None or self._count < self._budget:
            return self._free
        return Limits(forced=self._closing[self._count - self._budget])

    def accept(self, token: int) -> None:
        """Count it."""
        self._count += 1
        self.done = self._end.seen(token)


class Fixed:
    """These tokens."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._left = list(tokens)

    @property
    def done(self) -> bool:
        """Whether all have come."""
        return not self._left

    def limits(self) -> Limits:
        """The next one."""
        return Limits(forced=self._left[0])

    def accept(self, token: int) -> None:
        """On to the next."""
        del self._left[0]


class Form:
    """Text of a grammar, to the reply's end."""

    done = False

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def limits(self) -> Limits:
        """What the grammar allows."""
        return Limits(allowed=self._matcher.allowed())

    def accept(self, token: int) -> None:
        """Go on in the grammar."""
        self._matcher.accept(token)


class Calls:
    """Free text, in which the tag of a call begins text of a grammar.

    Args:
        bytes_of: of a token.
        tag: what begins a call.
        body: the grammar of a call behind its tag; used anew for each.
        many: whether more may follow the first; if not, nothing does.
    """

    done = False

    def __init__(self, bytes_of: Bytes, tag: bytes, body: Matcher, *, many: bool) -> None:
        self._tag = _Watch(tag, bytes_of)
        self._body = body
        self._many = many
        self._inside: Matcher | None = None

    def limits(self) -> Limits:
        """What the grammar allows, inside a call; after the only one, the end."""
        return FREE if self._inside is None else Limits(allowed=self._inside.allowed())

    def accept(self, token: int) -> None:
        """Go on in the call, or look for the next."""
        if self._inside is None:
            if self._tag.seen(token):
                self._inside = self._body.copy()
            return
        self._inside.accept(token)
        if self._inside.complete and self._many:
            self._inside = None


class _Watch:
    """Finds a tag in the text of tokens, one token or several: whoever reads the text finds it there, too."""

    def __init__(self, tag: bytes, bytes_of: Bytes) -> None:
        self._tag = tag
        self._bytes_of = bytes_of
        self._tail = b""

    def seen(self, token: int) -> bool:
        """Whether the tag ends in this token."""
        text = self._tail + self._bytes_of(token)
        found = self._tag in text
        self._tail = b"" if found else text[-(len(self._tag) - 1) :]
        return found
