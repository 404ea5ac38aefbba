"""`qanat chat`: a conversation on the terminal. Each turn renders the whole history through the template."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from qanat.cli.chat_commands import Chat, Leave, run_command
from qanat.cli.chat_input import Lines, PipedLines, TypedLines
from qanat.cli.chat_state import Conversation
from qanat.cli.guard import BAD_INPUT, report
from qanat.cli.input import InputError, require_text, stdin_is_terminal
from qanat.cli.markdown import MarkdownPrinter
from qanat.cli.options import ModelOptions, SamplingOptions, grouped
from qanat.cli.output import StreamPrinter, is_terminal, note
from qanat.cli.replies import Partial, count_prompt, open_model, stream_reply
from qanat.cli.sampling import typed_settings
from qanat.cli.terminal import quiet_interrupt
from qanat.errors import QanatError

__all__ = ["chat"]


@grouped
def chat(
    *,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="The system prompt.")] = None,
    thinking: Annotated[
        bool | None,
        typer.Option(
            "--thinking/--no-thinking", help="Let the model think first, or not. Default: its template's."
        ),
    ] = None,
    hide_thinking: Annotated[bool, typer.Option("--hide-thinking", help="Do not show thoughts.")] = False,
    model: ModelOptions,
    sampling: SamplingOptions,
) -> None:
    """Talk with a model. /help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves.

    Lines piped in are turns too: one line, one turn, and `\\` at the end joins the next line.
    """
    settings = typed_settings(sampling)
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("there is no standard input to read turns from")
    if system is not None:
        require_text(system, "--system")
    llm = open_model(model)
    talk = Chat(
        llm,
        model.model,
        Conversation(system, thinking, settings),
        greedy=sampling.greedy,
        hide_thinking=hide_thinking,
    )
    note(f"{model.model}: {talk.describe()}. /help lists the commands")
    lines: Lines = TypedLines() if stdin_is_terminal() else PipedLines()
    if not _turns(talk, lines):
        raise typer.Exit(BAD_INPUT)


def _turns(talk: Chat, lines: Lines) -> bool:
    """Read and answer until the end; False if a piped line was refused."""
    fine = True
    while (line := lines.next()) is not None:
        try:
            if line.startswith("/"):
                note_lines(run_command(talk, line))
                if talk.answer_again:
                    talk.answer_again = False
                    _answer(talk)
            elif line.strip():
                _say(talk, line)
        except Leave:
            break
        except QanatError as error:
            report(str(error))
            fine = fine and lines.typed
    if not talk.conversation.saved and talk.conversation.turns and lines.typed:
        note("this conversation was not saved; /save FILE keeps one")
    return fine


def note_lines(text: str) -> None:
    """What a command answers, line by line, on stderr."""
    for line in text.split("\n"):
        print(line, file=sys.stderr, flush=True)


def _say(talk: Chat, line: str) -> None:
    """One turn of the user; a line that cannot be answered is not kept."""
    turns = talk.conversation.turns
    turns.append({"role": "user", "content": line})
    try:
        _answer(talk)
    except QanatError:
        turns.pop()
        raise


def _answer(talk: Chat) -> None:
    """Let the model speak; Ctrl-C stops it, and what it had said stays."""
    conversation = talk.conversation
    params = talk.params()
    printer: Any = (
        MarkdownPrinter(hide_thinking=talk.hide_thinking)
        if is_terminal(sys.stdout)
        else StreamPrinter(hide_thinking=talk.hide_thinking)
    )
    partial = Partial()
    stopped = False
    messages, thinking = conversation.messages(), conversation.thinking

    def count() -> int:
        return count_prompt(talk.llm, messages, enable_thinking=thinking)

    stream = talk.llm.chat(messages, params, enable_thinking=thinking, stream=True)
    try:
        with quiet_interrupt():
            reply, _ = stream_reply(stream, printer, partial, prompt_tokens=count)
    except KeyboardInterrupt:
        stopped = True
    if partial.content or partial.reasoning:
        message = {"role": "assistant", "content": partial.content}
        if partial.reasoning:
            message["reasoning_content"] = partial.reasoning
        conversation.turns.append(message)
        conversation.saved = False
    if partial.tokens:  # else the prompt was not read to its end
        talk.last_seed = params.seed
        talk.totals["replies"] += 1
        talk.totals["prompt_tokens"] += count() if stopped else reply.usage.prompt_tokens
        talk.totals["cached_tokens"] += 0 if stopped else reply.usage.cached_tokens
        talk.totals["tokens"] += partial.tokens
        talk.totals["seconds"] += partial.watch.prompt_seconds + partial.watch.decode_seconds
    if stopped:
        note("stopped; /regen asks again")
        return
    if reply.finish_reason == "length":
        full = reply.usage.total_tokens >= talk.llm.max_model_len
        note(
            f"cut off: the context of {talk.llm.max_model_len} tokens is full (/clear begins anew)"
            if full
            else "cut off: the reply reached its limit of tokens (/set max_tokens N)"
        )
