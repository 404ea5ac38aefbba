"""Answering the lines of a batch together: results come as they finish.

One thread reads all streams in turn. Asking one for its next chunk computes a step for all that are open, so
that the others then have theirs at hand; a line that ends makes room for the next within the same turn.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from qanat.errors import NumericalError, QanatError
from qanat.server.answering import check_model, echoed_prompts, start_chat, start_completion
from qanat.server.batch_lines import BatchLine, failure, read_request, success
from qanat.server.chat_request import ChatRequest
from qanat.server.responses import EchoedPrompt, Head, chat_completion, text_completion

if TYPE_CHECKING:
    from qanat.engine import LLM
    from qanat.engine.reply import Reply, ReplyChunk

__all__ = ["answer_lines"]

Result = dict[str, Any]


def answer_lines(llm: LLM, lines: Iterable[BatchLine], *, names: list[str], room: int) -> Iterator[Result]:
    """The result of every line, in the order in which they finish. Closing the iterator ends what is open.

    Args:
        llm: what answers.
        lines: the requests.
        names: under which requests may ask for the model; the first is the one that results carry.
        room: sequences to keep going; a line with several choices or prompts counts as many.
    """
    touched: list[BatchLine] = []
    yield from _together(llm, lines, names, room, touched)
    for line in touched:  # numbers that are not finite end a whole step: who is to blame shows alone
        yield from _together(llm, [line], names, 1, None)


def _together(
    llm: LLM, lines: Iterable[BatchLine], names: list[str], room: int, touched: list[BatchLine] | None
) -> Iterator[Result]:
    waiting = deque(lines)
    answers: deque[_Answer] = deque()
    try:
        while waiting or answers:
            while waiting and sum(answer.sequences for answer in answers) < room:
                line = waiting.popleft()
                try:
                    answers.append(_Answer(llm, line, names))
                except QanatError as error:
                    yield failure(line, error)
            if not answers:
                continue
            answer = answers.popleft()
            try:
                if answer.advance():
                    answers.append(answer)
                else:
                    yield success(answer.line, answer.body())
            except NumericalError as error:
                if touched is None:
                    yield failure(answer.line, error)
                else:
                    touched.append(answer.line)
            except QanatError as error:
                yield failure(answer.line, error)
    finally:
        for answer in answers:
            answer.close()


class _Answer:
    """A request under way, and what has arrived of its replies."""

    def __init__(self, llm: LLM, line: BatchLine, names: list[str]) -> None:
        self.line = line
        self._request = request = read_request(line)
        check_model(request.model, names)
        self._echoed: list[EchoedPrompt] | None = None
        self.sequences = request.params.n
        self._stream: Iterator[ReplyChunk]
        if isinstance(request, ChatRequest):
            self._stream = start_chat(llm, request)
        else:
            self._stream = start_completion(llm, request)
            self._echoed = echoed_prompts(llm, request)
            self.sequences *= len(request.prompts)
        self._model = names[0]
        self._replies: dict[tuple[int, int], Reply] = {}

    def advance(self) -> bool:
        """Take a chunk of each reply that is growing; False if all have ended."""
        for _ in range(self.sequences - len(self._replies)):
            chunk = next(self._stream)
            if chunk.reply is not None:
                self._replies[chunk.prompt_index, chunk.choice_index] = chunk.reply
        return len(self._replies) < self.sequences

    def body(self) -> dict[str, Any]:
        """The whole answer."""
        created = int(time.time())
        replies: dict[int, list[Reply]] = {}
        for (prompt, _), reply in sorted(self._replies.items(), key=lambda item: item[0]):
            replies.setdefault(prompt, []).append(reply)
        if isinstance(self._request, ChatRequest):
            return chat_completion(Head(f"chatcmpl-{self.line.digest}", created, self._model), replies[0])
        head = Head(f"cmpl-{self.line.digest}", created, self._model)
        return text_completion(head, list(replies.values()), self._echoed)

    def close(self) -> None:
        """End what is under way."""
        self._stream.close()  # type: ignore[attr-defined]
