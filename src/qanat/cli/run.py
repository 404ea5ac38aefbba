"""`qanat run`: one prompt, one streamed reply."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qanat.cli.input import InputError, read_schema, read_stdin, read_tools, require_words, stdin_is_terminal
from qanat.cli.options import ModelOptions, SamplingOptions, grouped
from qanat.cli.output import StreamPrinter, note, print_json
from qanat.cli.replies import count_prompt, open_model, read_bytes_per_token, reply_as_json, stream_reply
from qanat.cli.sampling import describe, parameters, resolve_thinking, typed_settings

if TYPE_CHECKING:
    from qanat.engine import LLM, Structure

BRIEF = 4000
"""Characters of a prompt up to which it counts as short."""

__all__ = ["run"]


def _prompt(argument: str | None, *, raw: bool) -> str:
    """What is piped in, then the argument: `cat report.txt | qanat run "summarise"`.

    Blanks are no prompt, except for `raw`: there a model goes on from them.
    """
    piped = "" if argument is not None and stdin_is_terminal() else None
    if piped is None:
        if argument is None and stdin_is_terminal():
            raise InputError("give a prompt as an argument, or pipe one in")
        piped = read_stdin()
    parts = [part for part in (piped, argument) if part and (raw or part.strip())]
    if not parts:
        return require_words(piped + (argument or ""), "prompt")
    return parts[0] if len(parts) == 1 else f"{piped.rstrip()}\n\n{argument}"


def _refuse_contradictions(
    *,
    raw: bool,
    as_json: bool,
    hide_thinking: bool,
    logprobs: dict[str, int],
    chat_only: dict[str, bool],
) -> None:
    for name, given in chat_only.items():
        if raw and given:
            raise InputError(
                f"--raw sends the prompt as it is, without the chat template: {name} would do nothing"
            )
    if as_json and hide_thinking:
        raise InputError("--json keeps thought and answer apart: --hide-thinking would do nothing")
    for name in logprobs:
        if not as_json:
            raise InputError(
                f"log probabilities appear in the JSON output: add --json to --{name.replace('_', '-')}"
            )


@grouped
def run(
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="What to say; text piped in is put before it.")
    ] = None,
    *,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="The system prompt.")] = None,
    thinking: Annotated[
        bool | None,
        typer.Option(
            "--thinking/--no-thinking", help="Let the model think first, or not. Default: its template's."
        ),
    ] = None,
    tools: Annotated[
        str | None, typer.Option(metavar="FILE", help="A JSON list of tools that the model may ask to call.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|JSON", help="Answer with JSON of this schema; it is typed as it is, or in a file."
        ),
    ] = None,
    sanitize: Annotated[
        bool,
        typer.Option(
            "--sanitize", help="Read control tokens such as <|im_end|> inside the prompt as plain text."
        ),
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Send the prompt as it is, without the chat template.")
    ] = False,
    hide_thinking: Annotated[bool, typer.Option("--hide-thinking", help="Do not show thoughts.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object at the end instead of streaming text.")
    ] = False,
    logprobs: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="With --json: each token's log probability and its N best alternatives."
        ),
    ] = None,
    prompt_logprobs: Annotated[
        int | None, typer.Option(metavar="N", help="The same for each token of the prompt but the first.")
    ] = None,
    model: ModelOptions,
    sampling: SamplingOptions,
) -> None:
    """Answer one prompt.

    The reply goes to standard output as it is made; sampling and speed go to standard error.
    Without --greedy or sampling options the model card's sampling is used.
    """
    chat_only = {
        "--system": system is not None,
        "--thinking/--no-thinking": thinking is not None,
        "--tools": tools is not None,
        "--sanitize": sanitize,
        "--thinking-budget": sampling.thinking_budget is not None,
        "--hide-thinking": hide_thinking,
    }
    wanted = {"logprobs": logprobs, "prompt_logprobs": prompt_logprobs}
    asked = {name: count for name, count in wanted.items() if count is not None}
    _refuse_contradictions(
        raw=raw, as_json=as_json, hide_thinking=hide_thinking, logprobs=asked, chat_only=chat_only
    )
    settings = typed_settings(sampling) | asked
    if schema is not None:
        settings["structure"] = _structure(schema, sampling)
    tool_list = None if tools is None else read_tools(tools)
    text = _prompt(prompt, raw=raw)
    llm = open_model(model, brief=len(text) <= BRIEF)
    thinks = False if raw else resolve_thinking(llm.template, thinking)
    if not thinks and sampling.thinking_budget is not None:
        raise InputError("there is no thought to bound: add --thinking to --thinking-budget")
    params = parameters(llm, settings, greedy=sampling.greedy, thinking=thinks)
    count: Callable[[], int]
    if raw:
        stream = llm.generate(text, params, stream=True)
        count = partial(_count, llm, text)
    else:
        messages = _messages(system, text)
        options: dict[str, Any] = {"tools": tool_list, "enable_thinking": thinking, "sanitize": sanitize}
        stream = llm.chat(messages, params, stream=True, **options)
        count = partial(count_prompt, llm, messages, **options)
    printer = None if as_json else StreamPrinter(hide_thinking=hide_thinking)
    reply, watch = stream_reply(stream, printer, prompt_tokens=count)
    if as_json:
        print_json(reply_as_json(llm, reply))
    note(_summary(llm, reply, params, watch, sampling))


def _structure(schema: str, sampling: SamplingOptions) -> Structure:
    from qanat.engine import Structure

    for name, given in (("--ignore-eos", sampling.ignore_eos), ("--min-tokens", sampling.min_tokens)):
        if given:
            raise InputError(f"the schema says where a reply ends: {name} contradicts --schema")
    return Structure.json_schema(read_schema(schema))


def _count(llm: LLM, text: str) -> int:
    return len(llm.tokenizer.encode(text))


def _messages(system: str | None, text: str) -> list[dict[str, Any]]:
    first = [] if system is None else [{"role": "system", "content": system}]
    return [*first, {"role": "user", "content": text}]


def _summary(llm: LLM, reply: Any, params: Any, watch: Any, sampling: SamplingOptions) -> str:
    how = describe(params)
    if not sampling.greedy:
        how += (
            " (the model's default, changed by options)"
            if typed_settings(sampling)
            else " (the model's default)"
        )
    speed = watch.describe(
        reply.usage.prompt_tokens, reply.usage.completion_tokens, read_bytes_per_token(llm)
    )
    ended = "; cut off by --max-tokens or the context" if reply.finish_reason == "length" else ""
    return f"sampling: {how}; {speed}{ended}"
