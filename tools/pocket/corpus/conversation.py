"""What the corpus is made of: a conversation of turns, and its text as the official chat template renders it.

`pieces` cuts that text into parts that are learnt (what the assistant writes) and parts that are only read.
`messages` gives the same conversation as chat messages, so that a test can hold both against the template.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

TOOLS_BEFORE = "# Tools\n\nYou have access to the following functions:\n\n<tools>"
TOOLS_AFTER = """
</tools>

If you choose to call a function ONLY reply in the following format with NO suffix:

<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
<parameter=example_parameter_2>
This is the value for the second parameter
that can span
multiple lines
</parameter>
</function>
</tool_call>

<IMPORTANT>
Reminder:
- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested \
within <tool_call></tool_call> XML tags
- Required parameters MUST be specified
- You may provide optional reasoning for your function call in natural language BEFORE the function call, \
but NOT after
- If there is no function call available, answer the question like normal with your current knowledge and do \
not tell the user about function calls
</IMPORTANT>"""


@dataclass(frozen=True)
class ToolStep:
    """One call that the assistant makes, and what the tool answers."""

    thought: str
    name: str
    arguments: dict[str, str]
    response: str

    def call_text(self) -> str:
        """The call in the XML form of the template."""
        lines = [f"<tool_call>\n<function={self.name}>\n"]
        lines += [f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in self.arguments.items()]
        return "".join(lines) + "</function>\n</tool_call>"


@dataclass(frozen=True)
class Turn:
    """A question and its answer, with the thought before it and the tool calls on the way."""

    user: str
    answer: str
    thought: str
    skill: str
    steps: tuple[ToolStep, ...] = ()
    letterwise: bool = False  # the answer is learnt as single-letter tokens (reversed words)


@dataclass(frozen=True)
class Conversation:
    """Turns in order; with `thinking`, the last one shows its thoughts."""

    turns: tuple[Turn, ...]
    system: str | None = None
    tools: tuple[dict[str, Any], ...] = ()
    thinking: bool = False


@dataclass(frozen=True)
class Piece:
    """A stretch of text; `learnt` says whether its tokens enter the loss."""

    text: str
    learnt: bool
    letterwise: bool = False


@dataclass
class _Writer:
    pieces: list[Piece] = field(default_factory=list)

    def read(self, text: str) -> None:
        self.pieces.append(Piece(text, learnt=False))

    def learn(self, text: str, letterwise: bool = False) -> None:
        self.pieces.append(Piece(text, learnt=True, letterwise=letterwise))

    def reply(self, text: str, thought: str | None, show_think: bool, letterwise: bool) -> None:
        """One assistant message; without a thought, `show_think` writes the empty block of thinking off."""
        if show_think and thought is None:
            self.read("<think>\n\n</think>\n\n")
        elif show_think:
            self.read("<think>\n")
            self.learn(f"{thought}\n</think>\n\n")
        if letterwise and not show_think:
            # In the history a reversed word is re-read in its usual tokens, which are not how it was written.
            self.read(text)
        else:
            self.learn(text, letterwise)
        self.learn("<|im_end|>")
        self.read("\n")


def pieces(conversation: Conversation) -> list[Piece]:
    """The rendered text in pieces; joined, they are exactly what the official template gives."""
    out = _Writer()
    system = system_text(conversation)
    if system is not None:
        out.read(f"<|im_start|>system\n{system}<|im_end|>\n")
    for turn in conversation.turns:
        last = turn is conversation.turns[-1]
        thinks = last and conversation.thinking
        out.read(f"<|im_start|>user\n{turn.user}<|im_end|>\n<|im_start|>assistant\n")
        for step in turn.steps:
            out.reply(step.call_text(), step.thought if thinks else None, last, letterwise=False)
            out.read(f"<|im_start|>user\n<tool_response>\n{step.response}\n</tool_response><|im_end|>\n")
            out.read("<|im_start|>assistant\n")
        out.reply(turn.answer, turn.thought if thinks else None, last, turn.letterwise)
    return out.pieces


def system_text(conversation: Conversation) -> str | None:
    """The system message including the tool list, or None."""
    if not conversation.tools:
        return conversation.system
    listing = "".join("\n" + json.dumps(tool, ensure_ascii=False) for tool in conversation.tools)
    tail = f"\n\n{conversation.system}" if conversation.system else ""
    return TOOLS_BEFORE + listing + TOOLS_AFTER + tail


def text_of(conversation: Conversation) -> str:
    """The whole rendered text."""
    return "".join(piece.text for piece in pieces(conversation))


def messages(conversation: Conversation) -> list[dict[str, Any]]:
    """The conversation as chat messages, thoughts included where they were had."""
    found: list[dict[str, Any]] = []
    if conversation.system is not None:
        found.append({"role": "system", "content": conversation.system})
    for turn in conversation.turns:
        found.append({"role": "user", "content": turn.user})
        for step in turn.steps:
            thought = step.thought if conversation.thinking else ""
            call = {"type": "function", "function": {"name": step.name, "arguments": step.arguments}}
            found.append(
                {"role": "assistant", "content": "", "reasoning_content": thought, "tool_calls": [call]}
            )
            found.append({"role": "tool", "content": step.response})
        thought = turn.thought if conversation.thinking else ""
        found.append({"role": "assistant", "content": turn.answer, "reasoning_content": thought})
    return found
