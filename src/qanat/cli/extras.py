"""Packages that only some commands need."""

from __future__ import annotations

from importlib import import_module

from qanat.cli.input import InputError

__all__ = ["require_extra"]


def require_extra(extra: str, modules: tuple[str, ...], *, wanted_by: str) -> None:
    """Refuse to go on without the modules of one of qanat's extras.

    Raises:
        InputError: one is not installed; the message has the command that installs it.
    """
    for name in modules:
        try:
            import_module(name)
        except ImportError:
            raise InputError(
                f"{wanted_by} needs {name}, which is not installed: pip install 'qanat[{extra}]'"
            ) from None
