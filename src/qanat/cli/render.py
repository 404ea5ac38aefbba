"""`qanat render`: a conversation in, the prompt that the model would read out."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from qanat.cli.input import InputError, read_json, read_messages, read_tools
from qanat.cli.options import model_option
from qanat.cli.output import print_text

__all__ = ["render"]


def render(
    messages: Annotated[
        str,
        typer.Argument(
            metavar="MESSAGES.json", help="A file with a JSON list of messages; `-` reads standard input."
        ),
    ],
    tools: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file with a JSON list of tools.")
    ] = None,
    documents: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="A file with a JSON list of documents, for templates that read them."
        ),
    ] = None,
    thinking: Annotated[
        bool | None,
        typer.Option(
            "--thinking/--no-thinking", help="Open a thought, or close it at once. Default: the template's."
        ),
    ] = None,
    generation_prompt: Annotated[
        bool | None,
        typer.Option(
            "--generation-prompt/--no-generation-prompt",
            help="End where the assistant begins to speak; the default.",
        ),
    ] = None,
    continue_final: Annotated[
        bool,
        typer.Option("--continue", help="Leave the last message open, so that the model goes on with it."),
    ] = False,
    model: Annotated[str, model_option] = "pocket",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never ask the hub.")] = False,
) -> None:
    """Print the prompt of a conversation, character for character."""
    from qanat.checkpoint import resolve_model
    from qanat.text import ChatTemplate

    if [messages, tools, documents].count("-") > 1:
        raise InputError("only one of the files can be standard input")
    if continue_final and generation_prompt:
        raise InputError("--continue ends inside the last message, --generation-prompt after it: choose one")
    conversation = read_messages(messages)
    keywords: dict[str, Any] = {} if thinking is None else {"enable_thinking": thinking}
    template = ChatTemplate.from_folder(
        resolve_model(model, revision=revision, offline=offline or None, files="tokenizer")
    )
    for option, given, variable in (
        ("--documents", documents is not None, "documents"),
        ("--thinking/--no-thinking", thinking is not None, "enable_thinking"),
    ):
        if given and variable not in template.variables:
            raise InputError(
                f"the chat template of this model does not read {variable}: {option} would do nothing"
            )
    print_text(
        template.render(
            conversation,
            tools=None if tools is None else read_tools(tools),
            documents=None if documents is None else read_json(documents),
            add_generation_prompt=generation_prompt is not False and not continue_final,
            continue_final_message=continue_final,
            **keywords,
        )
    )
