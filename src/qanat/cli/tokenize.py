"""`qanat tokenize` and `qanat detokenize`: text to token ids and back, without loading any weights."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Annotated

import typer

from qanat.cli.input import InputError, parse_ids, read_stdin, stdin_is_terminal
from qanat.cli.options import model_option
from qanat.cli.output import note, print_json, print_text, visible

if TYPE_CHECKING:
    from qanat.text import Tokenizer

__all__ = ["detokenize", "load_tokenizer", "token_label", "tokenize"]


def load_tokenizer(model: str, *, revision: str | None = None, offline: bool = False) -> Tokenizer:
    """The tokenizer of a model; from the hub, only the tokenizer's files are fetched."""
    from qanat.checkpoint import resolve_model
    from qanat.text import Tokenizer

    return Tokenizer.from_folder(
        resolve_model(model, revision=revision, offline=offline or None, files="tokenizer")
    )


def token_label(tokenizer: Tokenizer, token: int) -> str:
    """How a token is shown to a person: its text in quotes, or the bytes of part of a character."""
    data = tokenizer.token_bytes(token)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes " + data.hex(" ")
    marked = "".join(
        f"\\u{ord(c):04x}" if unicodedata.category(c)[0] in "CZM" and c not in " \n\t" else c for c in text
    )
    return '"' + visible(marked.replace("\n", "\\n").replace("\t", "\\t")) + '"'


def _text_argument(text: str | None) -> str:
    if text is None and stdin_is_terminal():
        raise InputError('give the text as an argument, or pipe it in with "-"')
    return read_stdin() if text is None or text == "-" else text


def tokenize(
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT | -", help="The text; `-` or nothing reads standard input."),
    ] = None,
    model: Annotated[str, model_option] = "pocket",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never ask the hub.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: ids, tokens, offsets in characters.")
    ] = False,
    pieces: Annotated[bool, typer.Option("--pieces", help="One line a token: id, characters, text.")] = False,
    plain: Annotated[
        bool,
        typer.Option(
            "--split-special-tokens", help="Read control tokens such as <|im_end|> as ordinary text."
        ),
    ] = False,
) -> None:
    """Turn text into token ids, exactly as the model will read it (no template is applied)."""
    if as_json and pieces:
        raise InputError("--json and --pieces are two forms of the same output: choose one")
    if plain and (as_json or pieces):
        raise InputError("--split-special-tokens gives ids only: leave out --json and --pieces")
    source = _text_argument(text)
    tokenizer = load_tokenizer(model, revision=revision, offline=offline)
    if not (as_json or pieces):
        print(" ".join(map(str, tokenizer.encode(source, split_special_tokens=plain))))
        return
    tokens = tokenizer.encode_with_offsets(source)
    if as_json:
        print_json(
            {
                "ids": [token for token, _, _ in tokens],
                "tokens": [tokenizer.token_text(token) for token, _, _ in tokens],
                "offsets": [[start, end] for _, start, end in tokens],
            }
        )
        return
    for token, start, end in tokens:
        print(f"{token:>7}  {start}-{end}".ljust(22), token_label(tokenizer, token))


def detokenize(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="IDS... | -", help="Token ids; `-` or nothing reads standard input."),
    ] = None,
    model: Annotated[str, model_option] = "pocket",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never ask the hub.")] = False,
    skip: Annotated[
        bool, typer.Option("--skip-special-tokens", help="Leave out control tokens such as <|im_end|>.")
    ] = False,
) -> None:
    """Turn token ids back into text."""
    if not ids and stdin_is_terminal():
        raise InputError('give token ids as arguments, or pipe them in with "-"')
    words = [read_stdin()] if not ids or ids == ["-"] else ids
    numbers = parse_ids(words)
    tokenizer = load_tokenizer(model, revision=revision, offline=offline)
    dropped = sum(not tokenizer.token_bytes(number) for number in numbers)
    if dropped:
        note(f"{dropped} of {len(numbers)} ids have no token in this vocabulary and were left out")
    print_text(tokenizer.decode(numbers, skip_special_tokens=skip))
