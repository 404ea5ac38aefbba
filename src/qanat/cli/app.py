"""The command `qanat` and its subcommands."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from qanat import __version__
from qanat.cli import invocation
from qanat.cli.batch import batch
from qanat.cli.bench import bench
from qanat.cli.cache import cache
from qanat.cli.chat import chat
from qanat.cli.explain import explain
from qanat.cli.guard import guarded
from qanat.cli.inspect import inspect
from qanat.cli.models import list_models, pull, remove
from qanat.cli.render import render
from qanat.cli.run import run as run_command
from qanat.cli.serve import serve
from qanat.cli.tokenize import detokenize, tokenize
from qanat.cli.verify import verify

__all__ = ["app", "run"]


class GuardedGroup(TyperGroup):
    """The group of all commands; failures of any of them leave through `guarded`."""

    def make_context(self, info_name: Any, args: list[str], *more: Any, **extra: Any) -> Any:
        """Read what stands before the command's name."""
        if not args:  # the help, which is no failure
            return super().make_context(info_name, args, *more, **extra)
        with guarded():
            return super().make_context(info_name, args, *more, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        with guarded():
            return super().invoke(ctx)


app = typer.Typer(
    cls=GuardedGroup,
    help="Inference for the Qwen3.5 family, from the checkpoint's bytes to the streamed reply.",
    epilog="Every command takes --help. The built-in model `pocket` needs no download.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"qanat {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


app.command("run")(run_command)
app.command("chat")(chat)
app.command("batch")(batch)
app.command("serve")(serve)
app.command("tokenize")(tokenize)
app.command("detokenize")(detokenize)
app.command("render")(render)
app.command("inspect")(inspect)
app.command("explain")(explain)
app.command("verify")(verify)
app.command("bench")(bench)
app.command("pull")(pull)
app.command("list")(list_models)
app.command("rm")(remove)
app.add_typer(cache, name="cache")


def run() -> None:
    """Parse `sys.argv`, run the command and exit."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller (`>&-`): what is written goes nowhere
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if not stream.isatty():
            # A program reads this: every character as it is, whatever the locale, and so are bytes that are
            # none (in names of files).
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
        else:  # a terminal that cannot show a character gets a substitute instead of an exception
            stream.reconfigure(errors="replace")
        if stream is sys.stderr:
            stream.reconfigure(errors="backslashreplace")
    app(prog_name=invocation.program())
