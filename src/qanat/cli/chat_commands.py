"""The `/` commands of `qanat chat`. Each changes the conversation, and says in a line what it did."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from qanat.cli.chat_model import ChatModel
from qanat.cli.chat_state import Conversation, load_conversation, save_conversation
from qanat.cli.input import InputError, require_text
from qanat.cli.sampling import SETTINGS, parse_setting

__all__ = ["Chat", "Leave", "run_command"]


class Leave(Exception):  # noqa: N818 - not an error
    """The user wants to go."""


@dataclasses.dataclass
class Chat:
    """A running chat: who answers, the conversation, and what the commands need to remember."""

    model: ChatModel
    conversation: Conversation
    greedy: bool = False
    hide_thinking: bool = False
    replaced: Conversation | None = None
    """What the last /clear, /load or /regen put away, for `/load` without a name."""
    answer_again: bool = False
    """/regen asks the main loop to answer the last user message once more."""
    totals: dict[str, float] = dataclasses.field(
        default_factory=lambda: dict.fromkeys(
            ("replies", "uncounted", "prompt_tokens", "cached_tokens", "tokens", "seconds"), 0
        )
    )

    last_seed: int | None = None
    """What the last reply was drawn with."""

    def describe(self, conversation: Conversation | None = None) -> str:
        """How the next reply will be drawn; an error if the settings of `conversation` cannot be used."""
        return self.model.describe(conversation or self.conversation, greedy=self.greedy)


def _help(chat: Chat, rest: str) -> str:
    lines = [f"  {usage:<24} {text}" for usage, text, _ in COMMANDS.values()]
    keys = (
        "  Alt-Enter, or \\ at the end of a line, starts a new line; Ctrl-C stops an answer; Ctrl-D leaves."
    )
    return "\n".join([*lines, keys])


def _clear(chat: Chat, rest: str) -> str:
    old = chat.conversation
    chat.replaced = old
    chat.conversation = Conversation(old.system, old.thinking, dict(old.settings))
    return f"{len(old.turns)} messages put away; /load without a name brings them back"


def _system(chat: Chat, rest: str) -> str:
    if rest == "":
        current = chat.conversation.system
        return "no system prompt" if current is None else f"system prompt: {current}"
    chat.conversation.system = None if rest == "off" else require_text(rest, "the system prompt")
    chat.conversation.saved = False
    return (
        "system prompt removed" if rest == "off" else "system prompt set; it holds for the whole conversation"
    )


def _set(chat: Chat, rest: str) -> str:
    name, _, value = rest.partition(" ")
    if not name:
        return chat.describe() + f"; settings: {', '.join(SETTINGS)}"
    if not value.strip():
        raise InputError("say /set NAME VALUE, or /set NAME default")
    settings = dict(chat.conversation.settings)
    if value.strip() == "default":
        field, _ = name.replace("-", "_"), None
        if field not in SETTINGS:
            raise InputError(f"no setting is called {name!r}; there are: {', '.join(SETTINGS)}")
        settings.pop(field, None)
    else:
        field, setting = parse_setting(name, value.strip())
        if chat.greedy and field in ("temperature", "top_k", "top_p", "min_p", "seed"):
            raise InputError(f"this chat was started with --greedy: {field} would do nothing")
        settings[field] = setting
    trial = dataclasses.replace(chat.conversation, settings=settings, saved=False)
    described = chat.describe(trial)  # refuses what is out of range, before anything has changed
    chat.conversation = trial
    if field not in settings:
        return f"{described}; {field} as before"
    now = f"{field} {settings[field]}"
    told = {now, now.replace("_", " ")} & set(described.split(", "))  # penalties are spelled out there
    return described if told else f"{described}; {now}"


def _path(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # ~somebody without a home
        raise InputError(f"{name}: no such home folder") from None


def _save(chat: Chat, rest: str) -> str:
    if not rest:
        raise InputError("say /save FILE")
    path = _path(rest)
    save_conversation(chat.conversation, chat.model.name, path)
    return f"{len(chat.conversation.turns)} messages saved in {path}"


def _load(chat: Chat, rest: str) -> str:
    if not rest and chat.replaced is None:
        raise InputError("say /load FILE")
    loaded = load_conversation(_path(rest)) if rest else chat.replaced
    assert loaded is not None
    chat.describe(loaded)  # settings in range?
    if loaded.turns:
        chat.model.check(loaded)
    chat.replaced, chat.conversation = chat.conversation, loaded
    return f"{len(loaded.turns)} messages loaded; /load without a name swaps back to the conversation before"


def _think(chat: Chat, rest: str) -> str:
    wishes = {"on": True, "off": False, "auto": None}
    if rest == "hide" or rest == "show":
        chat.hide_thinking = rest == "hide"
        return f"thoughts are {'hidden' if chat.hide_thinking else 'shown'}"
    if rest not in wishes:
        raise InputError(
            "say /think on, /think off, /think auto (the template's default), /think hide or /think show"
        )
    told = chat.model.describe_thinking(wishes[rest])
    chat.conversation.thinking = wishes[rest]
    return f"{told}; {chat.describe()}"


def _regen(chat: Chat, rest: str) -> str:
    turns = list(chat.conversation.turns)
    while turns and turns[-1]["role"] == "assistant":
        turns.pop()
    if not turns:
        raise InputError("there is nothing to answer yet")
    chat.replaced = chat.conversation
    chat.conversation = dataclasses.replace(chat.conversation, turns=turns, saved=False)
    chat.answer_again = True
    return "once more; /load without a name brings the old answer back"


def _stats(chat: Chat, rest: str) -> str:
    t = chat.totals
    speed = f"{t['tokens'] / t['seconds']:.1f} tok/s" if t["seconds"] else "no speed yet"
    seed = "" if chat.last_seed is None else f", last seed {chat.last_seed}"
    noun = "reply" if t["replies"] == 1 else "replies"
    unknown = f"; of {t['uncounted']:.0f} the server told no tokens" if t["uncounted"] else ""
    return (
        f"{t['replies']:.0f} {noun}, {t['prompt_tokens']:.0f} prompt tokens "
        f"({t['cached_tokens']:.0f} of them known from before), "
        f"{t['tokens']:.0f} written, {speed}{seed}{unknown}; next reply: {chat.describe()}"
    )


def _exit(chat: Chat, rest: str) -> str:
    raise Leave


COMMANDS: dict[str, tuple[str, str, Callable[[Chat, str], str]]] = {
    "help": ("/help", "this list", _help),
    "clear": ("/clear", "start a new conversation (the old one is kept until the next /clear)", _clear),
    "system": ("/system [TEXT | off]", "show, set or remove the system prompt", _system),
    "set": ("/set [NAME VALUE]", "show the sampling, or change it; VALUE default restores", _set),
    "save": ("/save FILE", "write the conversation as JSON", _save),
    "load": ("/load [FILE]", "read one back; without a name, the one put away last", _load),
    "think": ("/think on|off|auto", "whether the model thinks first; hide|show its thoughts", _think),
    "regen": ("/regen", "answer the last message again", _regen),
    "stats": ("/stats", "tokens and speed so far", _stats),
    "exit": ("/exit", "leave (also Ctrl-D)", _exit),
}


def run_command(chat: Chat, line: str) -> str:
    """Run one line that begins with `/` and return what to tell the user.

    Raises:
        InputError: no such command, or it was given something it cannot use; nothing has changed then.
        Leave: the user wants to go.
    """
    name, _, rest = line[1:].partition(" ")
    if name in ("bye", "quit"):
        name = "exit"
    if name not in COMMANDS:
        raise InputError(
            f"no command is called /{name}; /help lists them (begin with a space to send it as text)"
        )
    if rest.strip() and name in ("help", "clear", "regen", "stats", "exit"):
        raise InputError(f"/{name} takes nothing after it")
    return COMMANDS[name][2](chat, rest.strip())
