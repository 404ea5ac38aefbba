"""Grammars over the tokens of one model: which ids may come next. The parsing is llguidance's."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from queue import Empty, SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qanat.engine.structure import Structure
from qanat.errors import GrammarError, QueueFullError
from qanat.model.sampling import WORD_BITS
from qanat.text.dialects.call_grammar import JSON_BLANKS

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer
    from llguidance._lib import JsonCompileOptions

    from qanat.text import Tokenizer

__all__ = ["COMPILE_SECONDS", "Grammars", "Matcher", "Part", "structure_part"]

Part = dict[str, Any]
"""A grammar as llguidance reads it: `name`, and `lark_grammar` or `json_schema`."""

COMPILERS = 2
"""Grammars that are compiled at once."""
COMPILE_SECONDS = 10.0
"""That a grammar may take to be compiled in; one that takes longer is given up."""
TURN_SECONDS = 30.0
"""That a request waits until it may compile."""
SLOW_MASK, MOST_SLOW, LONGEST_MASK = 0.05, 10, 0.25
"""Seconds of computing from which a mask is slow; how many slow ones a reply may have; and the longest."""
MOST_SYMBOLS = 200_000
"""Of a grammar, once it is spelled out: about a second of compiling."""
_JSON: JsonCompileOptions = {"whitespace_pattern": JSON_BLANKS, "lenient": False}
"""Keywords that cannot be kept are refused."""
_SPECIAL = b"\xff"
"""Before the text of a control token: no text has this byte, so that only its name in a grammar means it."""


class Matcher:
    """Where in a grammar one reply is."""

    def __init__(self, matcher: LLMatcher, what: str, usable: NDArray[np.uint32]) -> None:
        self._matcher = matcher
        self._what = what
        self._usable = usable
        self._slow = 0

    def copy(self) -> Matcher:
        """Another one in the same place."""
        return Matcher(self._matcher.deep_copy(), self._what, self._usable)

    def allowed(self) -> NDArray[np.uint32]:
        """The ids that may come next, as `SamplingRow.allowed`; the end tokens once the text is complete.

        Raises:
            GrammarError: the grammar turned out to be too complex.
        """
        words = np.zeros_like(self._usable)
        begin = time.thread_time()
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        self._spend(time.thread_time() - begin)
        self._check()
        return words & self._usable

    def _spend(self, seconds: float) -> None:
        """Whoever shares the steps waits for a mask: slow ones are few, or the reply ends."""
        self._slow += seconds > SLOW_MASK
        if seconds > LONGEST_MASK or self._slow > MOST_SLOW:
            raise _error(self._what, "it takes too long to tell what may come next")

    def accept(self, token: int) -> None:
        """Go on by a token that was allowed. GrammarError as `allowed`."""
        self._matcher.consume_token(token)
        self._check()

    @property
    def complete(self) -> bool:
        """Whether nothing can follow any more."""
        return bool(self._matcher.is_stopped())

    def _check(self) -> None:
        if self._matcher.is_error():
            raise _error(self._what, self._matcher.get_error())


class Grammars:
    """Compiles grammars. Safe to use from several threads.

    Args:
        tokenizer: the model's.
        end_ids: what ends a reply.
        live: ids from here on have no token.
    """

    def __init__(self, tokenizer: Tokenizer, *, end_ids: Sequence[int], live: int) -> None:
        self._tokenizer = tokenizer
        added = {token.id for token in tokenizer.added_tokens}
        self._end_ids = [token for token in end_ids if token in added] or list(end_ids)
        self._live = live
        # Where a piece of text is an end token, too, it would end a reply in the middle of the form.
        self._usable = np.full(-(-live // WORD_BITS), 2**WORD_BITS - 1, np.uint32)
        for token in set(end_ids) - set(self._end_ids):
            self._usable[token // WORD_BITS] &= ~np.uint32(1 << token % WORD_BITS)
        self._lock = Lock()
        self._made: LLTokenizer | None = None
        self._turns = Semaphore(COMPILERS)

    def tag(self, text: str) -> str:
        """How a grammar names a control token; its text in quotes if the model has no such token."""
        return text if text in self._added else '"' + text + '"'

    @cached_property
    def _added(self) -> frozenset[str]:
        return frozenset(token.content for token in self._tokenizer.added_tokens)

    def compile(self, parts: Sequence[Part], what: str) -> Matcher:
        """A matcher for the first of these grammars; it may refer to the others by their names.

        Raises:
            GrammarError: it makes no sense, asks for what cannot be kept, or is too complex; in which words
                llguidance says so, after `what`.
        """
        import llguidance

        limits = llguidance.LLParserLimits(max_grammar_size=MOST_SYMBOLS, verbose_errors=False)
        grammar = json.dumps({"grammars": list(parts)})
        tokens = self._tokens
        matcher = self._in_time(
            lambda: llguidance.LLMatcher(tokens, grammar, log_level=0, limits=limits), what
        )
        if matcher.is_error():
            raise _error(what, matcher.get_error())
        return Matcher(matcher, what, self._usable)

    def _in_time(self, compiled: Callable[[], LLMatcher], what: str) -> LLMatcher:
        """What `compiled` gives, in a thread of its own: a compilation cannot be broken off, only left alone.

        The process does not wait for it when it ends, either.
        """
        if not self._turns.acquire(timeout=TURN_SECONDS):
            raise QueueFullError("too many forms are being compiled: try again later")
        found: SimpleQueue[LLMatcher | BaseException] = SimpleQueue()

        def compile_and_leave() -> None:
            try:
                found.put(compiled())
            except BaseException as error:
                found.put(error)
            finally:
                self._turns.release()

        Thread(target=compile_and_leave, name="qanat-grammar", daemon=True).start()
        try:
            result = found.get(timeout=COMPILE_SECONDS)
        except Empty:
            raise _error(what, f"it was not compiled within {COMPILE_SECONDS:g} s") from None
        if isinstance(result, BaseException):
            raise result
        return result

    @property
    def _tokens(self) -> LLTokenizer:
        """What llguidance knows of the vocabulary: made when first needed, in a second if it is large."""
        with self._lock:
            if self._made is None:
                self._made = _tokens(self._tokenizer, self._end_ids, self._live)
            return self._made


def structure_part(structure: Structure, name: str) -> Part:
    """The grammar of a structure, under a name. GrammarError if it cannot be read."""
    from llguidance import LLMatcher

    if structure.kind == "grammar":
        return {"name": name, "lark_grammar": structure.source}
    try:
        if structure.kind == "regex":
            made = LLMatcher.grammar_from_regex(structure.source)
        else:
            schema = structure.source or '{"type": "object"}'
            made = LLMatcher.grammar_from_json_schema(schema, overrides=_JSON)
    except ValueError as error:
        raise _error(structure.name, str(error)) from None
    return {**json.loads(made)["grammars"][0], "name": name}


def _tokens(tokenizer: Tokenizer, end_ids: Sequence[int], live: int) -> LLTokenizer:
    from llguidance import LLTokenizer

    tokens = tokenizer.all_bytes()[:live]
    added = {token.id: token.content.encode() for token in tokenizer.added_tokens if token.id < live}
    for token, text in added.items():
        tokens[token] = _SPECIAL + text
    return LLTokenizer(_Vocabulary(tokenizer, tokens, list(added), end_ids[0]), eos_token=list(end_ids))  # type: ignore[arg-type]


class _Vocabulary:
    """A tokenizer in the form that llguidance takes."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, tokens: list[bytes], special: list[int], eos: int) -> None:
        self._tokenizer = tokenizer
        self.tokens = tokens
        self.special_token_ids = special
        self.eos_token_id = eos

    def __call__(self, text: str) -> list[int]:
        return self._tokenizer.encode_exactly(text)


def _error(what: str, why: str) -> GrammarError:
    why = " ".join(why.replace("<non-verbose/>", "").split())
    return GrammarError(f"the {what} cannot be used: {why[:400]}")
