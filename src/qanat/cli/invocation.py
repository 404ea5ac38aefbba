"""How this program was called, so that every command we print works when it is pasted back.

Nobody has to activate a virtual environment: whoever typed `.venv/bin/qanat` is shown `.venv/bin/qanat`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

__all__ = ["command", "install", "pasteable", "program", "python", "source_tree"]


_OPTIONS = (
    ("weights='bf16'", "--weights bf16"),
    ("weights='f32'", "--weights f32"),
    ("max_model_len", "--max-model-len"),
    ("(max_batch)", "(--max-batch)"),
    ("a higher limit (memory)", "a higher limit (--memory)"),
)


def _shown(path: Path) -> str:
    """`path`, quoted for a shell, as short as it can be typed from the current folder."""
    try:
        here = Path.cwd()
    except OSError:  # the folder we were started in is gone
        return shlex.quote(str(path))
    absolute = here / path  # not resolved: a venv's python is a symlink we must keep
    try:
        relative = absolute.relative_to(here)
    except ValueError:
        return shlex.quote(str(absolute))
    text = str(relative)
    # A bare name would be looked up on PATH instead of here.
    return shlex.quote(text if os.sep in text else f".{os.sep}{text}")


def _on_path(path: Path) -> bool:
    """Whether typing the bare name already starts this very file."""
    found = shutil.which(path.name)
    return found is not None and Path(found).resolve() == path.resolve()


def python() -> str:
    """The interpreter that runs qanat, as the user can type it."""
    return _shown(Path(sys.executable))


def program() -> str:
    """What the user typed to start qanat: `qanat`, `.venv/bin/qanat` or `.venv/bin/python -m qanat`."""
    called = Path(sys.argv[0]) if sys.argv and sys.argv[0] else Path("qanat")
    if called.name == "__main__.py":
        return f"{python()} -m qanat"
    if called.stem != "qanat":  # called from a script or a test: the command beside the interpreter
        called = Path(sys.executable).with_name("qanat")
        if not called.is_file():
            return f"{python()} -m qanat"
    return called.name if _on_path(called) else _shown(called)


def command(arguments: str) -> str:
    """A whole command line of qanat, ready to paste; `arguments` are already quoted."""
    return f"{program()} {arguments}"


def source_tree() -> Path | None:
    """The checkout that qanat runs from, or None when it was installed from a package."""
    root = Path(__file__).resolve().parents[3]
    return root if (root / "pyproject.toml").is_file() and (root / "src" / "qanat").is_dir() else None


def install(extra: str) -> str:
    """The command that adds an extra of qanat's to the running environment."""
    root = source_tree()
    what = f"-e {shlex.quote(f'{root}[{extra}]')}" if root else f"'qanat[{extra}]'"
    return f"{python()} -m pip install {what}"


def pasteable(message: str) -> str:
    """A message of the rooms below, which do not know how they were called, made to work here.

    They write commands of ours as `qanat ...` between backquotes, the hub's as `hf ...`, an extra as
    pip install 'qanat[extra]', and options as Python's arguments.
    """
    for argument, option in _OPTIONS:
        message = message.replace(argument, option)
    message = message.replace("`qanat ", f"`{program()} ")
    hub = Path(sys.executable).with_name("hf")
    if hub.is_file() and not _on_path(hub):
        message = message.replace("`hf ", f"`{_shown(hub)} ")
    return re.sub(r"pip install 'qanat\[(\w+)\]'", lambda match: install(match[1]), message)
