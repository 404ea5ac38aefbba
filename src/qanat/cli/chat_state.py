"""A conversation as `qanat chat` keeps it: messages, settings, and the file it is saved in."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qanat.cli.input import InputError, read_json
from qanat.cli.sampling import SETTINGS, parse_bias

__all__ = ["Conversation", "load_conversation", "save_conversation", "state_folder"]

FORMAT = "qanat chat 1"


@dataclass
class Conversation:
    """What is said and how it is answered. Each turn renders the whole of it through the template again."""

    system: str | None = None
    thinking: bool | None = None
    """The user's wish; None follows the template."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Fields of SamplingParams that differ from the model card."""
    turns: list[dict[str, Any]] = field(default_factory=list)
    """User and assistant messages in order."""
    saved: bool = True

    def messages(self) -> list[dict[str, Any]]:
        """The conversation as the template takes it."""
        first = [] if self.system is None else [{"role": "system", "content": self.system}]
        return first + self.turns


def state_folder() -> Path:
    """Where the history of typed lines lives, by the XDG rules."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state") / "qanat"


def save_conversation(conversation: Conversation, model: str, path: Path) -> None:
    """Write a conversation as JSON, whole or not at all.

    A file that is not a saved chat is never replaced.
    """
    if os.path.lexists(path):  # a link counts as itself, wherever it leads
        try:
            ours = path.is_file() and json.loads(path.read_bytes()).get("format") == FORMAT
        except (OSError, ValueError, AttributeError, RecursionError):
            ours = False
        if not ours:
            raise InputError(f"{path} exists and is not a saved chat: give another name")
    value = {
        "format": FORMAT,
        "model": model,
        "thinking": conversation.thinking,
        "settings": {
            name: {str(key): item for key, item in setting.items()} if isinstance(setting, dict) else setting
            for name, setting in conversation.settings.items()
        },
        "messages": conversation.messages(),
    }
    import tempfile  # slow to import, and only this needs it

    try:
        # A new file beside it, then renamed over it: a crash half-way leaves the old one as it was.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(value, file, ensure_ascii=False, indent=1)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be written: {reason}") from None
    conversation.saved = True


def load_conversation(path: Path) -> Conversation:
    """Read a saved conversation; anything unexpected in it is an error, and nothing is half loaded."""
    value = read_json(str(path))
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise InputError(f'{path} is not a saved chat (no "format": "{FORMAT}")')
    thinking, settings, messages = value.get("thinking"), value.get("settings"), value.get("messages")
    if (
        not (thinking is None or isinstance(thinking, bool))
        or not isinstance(settings, dict)
        or not isinstance(messages, list)
    ):
        raise InputError(
            f"{path} is damaged: thinking, settings or messages are missing or of the wrong kind"
        )
    conversation = Conversation(thinking=thinking)
    conversation.settings = _settings(settings, str(path))
    for number, message in enumerate(messages):
        _check_message(message, f"{path}: message {number + 1}")
        if message["role"] == "system":
            if number:
                raise InputError(f"{path}: message {number + 1}: a system message can only be the first")
            conversation.system = message["content"]
        else:
            conversation.turns.append(message)
    return conversation


def _settings(stored: dict[str, Any], where: str) -> dict[str, Any]:
    """Sampling settings from JSON; their ranges are checked where SamplingParams is made of them."""
    settings: dict[str, Any] = {}
    for name, value in stored.items():
        if name not in SETTINGS:
            raise InputError(f"{where}: unknown setting {name!r}")
        if name == "stop" and isinstance(value, list) and all(isinstance(text, str) for text in value):
            settings[name] = tuple(value)
        elif name == "logit_bias" and isinstance(value, dict):
            settings[name] = parse_bias([f"{token}={bias}" for token, bias in value.items()])
        elif name not in ("stop", "logit_bias") and isinstance(value, int | float):
            settings[name] = value
        else:
            raise InputError(f"{where}: setting {name} must be {SETTINGS[name][1]}, not {value!r}")
    return settings


def _check_message(message: Any, where: str) -> None:
    if not isinstance(message, dict) or message.get("role") not in ("system", "user", "assistant"):
        raise InputError(f"{where}: the role must be system, user or assistant")
    unknown = set(message) - {"role", "content", "reasoning_content"}
    if unknown:
        raise InputError(f"{where}: unknown field {sorted(unknown)[0]!r}")
    for name in ("content", "reasoning_content"):
        if not isinstance(message.get(name, ""), str):
            raise InputError(f"{where}: {name} must be text")
    if "content" not in message:
        raise InputError(f"{where}: content is missing")
