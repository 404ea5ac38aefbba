"""The typed errors of qanat: what went wrong, where, and what to do about it.

Every error that bad input can cause is a `QanatError`. The command line prints its message on
one line and exits with status 2; a server answers 400. Anything else is a bug in qanat.
"""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "ConfigError",
    "ContextLengthError",
    "DeadlineError",
    "GrammarError",
    "ModelNotFoundError",
    "NumericalError",
    "OutOfMemoryError",
    "QanatError",
    "QueueFullError",
    "RequestError",
    "SafetensorsError",
    "TemplateError",
    "TokenizerError",
    "TooManyTokensError",
    "UnsupportedError",
]


class QanatError(Exception):
    """Base of all errors that a user can cause and mend."""


class CheckpointError(QanatError):
    """A model folder is incomplete or damaged."""


class ModelNotFoundError(CheckpointError):
    """No folder, built-in model or hub repository of that name could be reached."""


class SafetensorsError(CheckpointError):
    """A .safetensors file breaks the format."""


class ConfigError(CheckpointError):
    """config.json is damaged, contradicts itself or describes something impossible."""


class UnsupportedError(QanatError):
    """The input is valid, but asks for something qanat does not do (yet)."""


class TokenizerError(QanatError):
    """tokenizer.json or the text given to it cannot be used."""


class TooManyTokensError(TokenizerError):
    """A text has more tokens than were wanted."""


class TemplateError(QanatError):
    """A conversation cannot be rendered by the chat template."""


class RequestError(QanatError):
    """A generation request is contradictory or out of range."""


class GrammarError(RequestError):
    """The form that a reply shall have makes no sense, cannot be kept, or is too complex."""


class ContextLengthError(RequestError):
    """A prompt is too long for the context."""


class QueueFullError(QanatError):
    """Too many requests wait already; try again later."""


class DeadlineError(QanatError):
    """A request did not end within the time that it was given."""


class NumericalError(QanatError):
    """The model computed something that is not a finite number, so no token can be chosen."""


class OutOfMemoryError(QanatError):
    """The model and its state do not fit into the memory that is free."""
