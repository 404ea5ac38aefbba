"""The thought at the start of a reply: `reasoning</think>answer`."""

from __future__ import annotations

from qanat.text.dialects.holding import HeldBlanks, held_length

__all__ = ["ThoughtSplitter", "starts_in_thought"]

_OPEN, _CLOSE = "<think>", "</think>"
_TURN, _TURN_END, _ASSISTANT = "<|im_start|>", "<|im_end|>", "assistant\n"


def starts_in_thought(prompt: str) -> bool:
    """Whether a reply to this rendered prompt begins inside a thought.

    It does when the assistant's turn at the end of the prompt begins with `<think>` and does not
    close it. A tag inside the answer or in other turns opens nothing. In a prompt without turns,
    only a `<think>` at its very end counts.
    """
    turn = prompt.rfind(_TURN)
    if turn < 0:
        return prompt.rstrip().endswith(_OPEN)
    text = prompt[turn + len(_TURN) :]
    if not text.startswith(_ASSISTANT) or _TURN_END in text:
        return False
    text = text.removeprefix(_ASSISTANT).lstrip()
    while text.startswith(_OPEN):
        _, closed, text = text.partition(_CLOSE)
        if not closed:
            return True
        text = text.lstrip()  # an answer may again begin with a thought of the old kind
    return False


class ThoughtSplitter:
    """Parts a reply's text into reasoning and the rest, as it comes.

    White space around the reasoning and newlines before the rest belong to the format and are dropped.
    """

    def __init__(self, *, in_thought: bool) -> None:
        self._in_thought = in_thought
        self._after_tag = False  # only newlines have followed the closing tag so far
        self._thinking = False  # some reasoning has gone out
        self._tail = ""  # may be the beginning of the closing tag
        self._blanks = HeldBlanks()

    def feed(self, text: str) -> tuple[str, str]:
        """The reasoning and the rest that `text` adds."""
        if not self._in_thought:
            return "", self._rest(text)
        text = self._tail + text
        end = text.find(_CLOSE)
        if end >= 0:
            self._in_thought, self._after_tag, self._tail = False, True, ""
            reasoning = self._reasoning(text[:end])
            self._blanks.take()
            return reasoning, self._rest(text[end + len(_CLOSE) :])
        ready = len(text) - held_length(text, 0, _CLOSE)
        self._tail = text[ready:]
        return self._reasoning(text[:ready]), ""

    def finish(self) -> str:
        """Reasoning that was held back in case its tag would be closed."""
        tail, self._tail = self._tail, ""
        return self._reasoning(tail)

    def _reasoning(self, text: str) -> str:
        ready = self._blanks.let_through(text)
        if ready and not self._thinking:
            ready = ready.lstrip()
            self._thinking = True
        return ready

    def _rest(self, text: str) -> str:
        if self._after_tag:
            text = text.lstrip("\n")
            self._after_tag = not text
        return text
