"""`qanat chat`: a conversation on the terminal. Each turn renders the whole history through the template."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial as partial_call
from typing import Annotated, Any

import typer

from qanat.cli.chat_commands import Chat, Leave, run_command
from qanat.cli.chat_input import Lines, PipedLines, TypedLines
from qanat.cli.chat_model import ChatModel, LocalModel
from qanat.cli.chat_state import Conversation
from qanat.cli.guard import BAD_INPUT, report
from qanat.cli.input import InputError, require_text, stdin_is_terminal
from qanat.cli.markdown import MarkdownPrinter
from qanat.cli.options import ModelOptions, SamplingOptions, grouped
from qanat.cli.output import StreamPrinter, is_terminal, note
from qanat.cli.remote_model import RemoteOptions, open_remote
from qanat.cli.replies import Partial, open_model, stream_reply
from qanat.cli.sampling import typed_settings
from qanat.cli.terminal import quiet_interrupt
from qanat.errors import QanatError

__all__ = ["chat"]

_DEFAULT = "ParameterSource.DEFAULT"
"""How typer says that an option was not typed; the enumeration itself has no public name there."""


@grouped
def chat(
    context: typer.Context,
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
    remote: RemoteOptions,
) -> None:
    """Talk with a model. /help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves.

    Lines piped in are turns too: one line, one turn, and `\\` at the end joins the next line.
    """
    settings = typed_settings(sampling)
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("there is no standard input to read turns from")
    if system is not None:
        require_text(system, "--system")
    talk = Chat(
        _open(model, remote, context),
        Conversation(system, thinking, settings),
        greedy=sampling.greedy,
        hide_thinking=hide_thinking,
    )
    note(f"{talk.model.name}: {talk.describe()}. /help lists the commands")
    lines: Lines = TypedLines() if stdin_is_terminal() else PipedLines()
    if not _turns(talk, lines):
        raise typer.Exit(BAD_INPUT)


def _open(model: ModelOptions, remote: RemoteOptions, context: typer.Context) -> ChatModel:
    """Who answers, a model here or one of a server; options that are about the other are refused."""
    if remote.url is None:
        for name in ("api_key_env", "api_key_file"):
            if getattr(remote, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} is for a server: name it with --url")
        return LocalModel(open_model(model), model.model)
    typed = [name for name in vars(model) if str(context.get_parameter_source(name)) != _DEFAULT]
    for name in typed:
        if name != "model":
            raise InputError(
                f"--{name.replace('_', '-')} is about a model on this machine: with --url it would do nothing"
            )
    return open_remote(remote, model.model if typed else None)


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
    seed, stream = talk.model.answer(conversation, greedy=talk.greedy)
    printer: Any = (
        MarkdownPrinter(hide_thinking=talk.hide_thinking)
        if is_terminal(sys.stdout)
        else StreamPrinter(hide_thinking=talk.hide_thinking)
    )
    partial = Partial()
    reply: Any = None
    # Of the conversation as it is now: a stopped answer is counted when its turn has been added already.
    count = partial_call(talk.model.count, replace(conversation, turns=list(conversation.turns)))
    try:
        with quiet_interrupt():
            reply, _ = stream_reply(stream, printer, partial, prompt_tokens=count)
    except KeyboardInterrupt:
        note("stopped; /regen asks again")
    if partial.content or partial.reasoning:
        message = {"role": "assistant", "content": partial.content}
        if partial.reasoning:
            message["reasoning_content"] = partial.reasoning
        conversation.turns.append(message)
        conversation.saved = False
    if partial.watch.first is not None:  # else the prompt was not read to its end
        talk.last_seed = seed
        _count(talk, partial, reply, count)
    ended = None if reply is None else talk.model.explain_end(reply)
    if ended is not None:
        note(ended)


def _count(talk: Chat, partial: Partial, reply: Any, count: Callable[[], int | None]) -> None:
    """Add a reply to the totals; of one that was stopped only what is known here."""
    usage = None if reply is None else reply.usage
    prompt = count() if reply is None else usage and usage.prompt_tokens
    tokens = partial.tokens if reply is None else usage and usage.completion_tokens
    totals = talk.totals
    totals["replies"] += 1
    if prompt is None or tokens is None:
        totals["uncounted"] += 1
        return
    totals["prompt_tokens"] += prompt
    totals["cached_tokens"] += 0 if usage is None else usage.cached_tokens
    totals["tokens"] += tokens
    totals["seconds"] += partial.watch.prompt_seconds + partial.watch.decode_seconds
