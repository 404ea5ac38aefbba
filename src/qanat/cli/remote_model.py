"""`--url`: a server that speaks OpenAI's dialect answers the chat."""

from __future__ import annotations

import math
import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qanat.cli.input import InputError
from qanat.cli.output import note

if TYPE_CHECKING:
    from qanat.cli.chat_state import Conversation
    from qanat.server.remote.chunks import RemoteChunk, RemoteReply
    from qanat.server.remote.client import ListedModel, RemoteClient

__all__ = ["RemoteModel", "RemoteOptions", "open_remote"]


def _option(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Server", **more)


@dataclass(frozen=True)
class RemoteOptions:
    """Which server answers instead of a model here, and with what key."""

    url: Annotated[
        str | None,
        _option(
            "Talk to this server of OpenAI's API, as http://localhost:8000; -m is then a name of its.",
            "--url",
            metavar="URL",
        ),
    ] = None
    api_key_env: Annotated[
        str | None,
        _option("The variable of the environment that holds the key.", "--api-key-env", metavar="NAME"),
    ] = None
    api_key_file: Annotated[
        Path | None, _option("The file that holds the key.", "--api-key-file", metavar="FILE")
    ] = None


class RemoteModel:
    """A model behind a server's chat completions."""

    def __init__(self, client: RemoteClient, name: str) -> None:
        self.name = name
        self._client = client

    def describe(self, conversation: Conversation, *, greedy: bool) -> str:
        """As `ChatModel`. Ranges are the server's to check."""
        fields = self._sampling(conversation, greedy=greedy)
        parts = [f"{name} {value}" for name, value in fields.items()]
        return ", ".join([*parts, "the rest as the server has it" if parts else "as the server has it"])

    def describe_thinking(self, wanted: bool | None) -> str:
        """As `ChatModel`."""
        asked = {True: "asked to think", False: "asked to answer at once", None: "not told whether to think"}
        return f"the server is {asked[wanted]}"

    def check(self, conversation: Conversation) -> None:
        """As `ChatModel`: nobody can tell before the server was asked."""

    def count(self, conversation: Conversation) -> None:
        """As `ChatModel`."""
        return

    def answer(
        self, conversation: Conversation, *, greedy: bool
    ) -> tuple[int | None, Generator[RemoteChunk, None, None]]:
        """As `ChatModel`."""
        body: dict[str, Any] = {
            "model": self.name,
            # Earlier thoughts stay here: templates leave them out, and not every server knows the field.
            "messages": [{"role": m["role"], "content": m["content"]} for m in conversation.messages()],
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._sampling(conversation, greedy=greedy),
        }
        if conversation.thinking is not None:
            body["chat_template_kwargs"] = {"enable_thinking": conversation.thinking}
        return conversation.settings.get("seed"), self._client.chat(body)

    def explain_end(self, reply: RemoteReply) -> str | None:
        """As `ChatModel`."""
        if reply.finish_reason == "length":
            return (
                "cut off: the limit of tokens is reached, the reply's (/set max_tokens N) or the context's "
                "(/clear begins anew)"
            )
        return None if reply.finish_reason in ("stop", "tool_calls") else f"ended by: {reply.finish_reason}"

    def _sampling(self, conversation: Conversation, *, greedy: bool) -> dict[str, Any]:
        """The settings under the names of OpenAI's fields, and of the fields that others have added."""
        fields: dict[str, Any] = {"temperature": 0} if greedy else {}
        for name, value in conversation.settings.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"{name} must be a finite number, not {value}")
            if name == "stop":
                fields[name] = list(value)
            elif name == "logit_bias":
                fields[name] = {str(token): bias for token, bias in value.items()}
            else:
                fields[name] = value
        return fields


def open_remote(options: RemoteOptions, model: str | None) -> RemoteModel:
    """The model of a server; without a name, the only one that it has.

    Raises:
        QanatError: the URL or key is none, the server cannot be reached, or a name is needed.
    """
    from qanat.server.remote.address import base_url, is_private
    from qanat.server.remote.client import RemoteClient

    assert options.url is not None
    base = base_url(options.url)
    key = _key(options)
    if key is not None and not is_private(base):
        note("the key goes over the network unencrypted: https:// would hide it")
    client = RemoteClient(base, key)
    return RemoteModel(client, model or _only(client.models()))


def _key(options: RemoteOptions) -> str | None:
    from qanat.server.key_file import check_key, read_keys

    if options.api_key_env is not None and options.api_key_file is not None:
        raise InputError("--api-key-env and --api-key-file both name a key: choose one")
    if options.api_key_env is not None:
        found = os.environ.get(options.api_key_env)
        if found is None:
            raise InputError(f"--api-key-env {options.api_key_env}: no such variable in the environment")
        return check_key(found, f"--api-key-env {options.api_key_env}")
    if options.api_key_file is not None:
        keys = read_keys(options.api_key_file)
        for number, key in keys[:1]:
            return check_key(key, f"--api-key-file {options.api_key_file}: line {number}")
        raise InputError(f"--api-key-file {options.api_key_file} holds no key")
    return None


def _only(models: list[ListedModel]) -> str:
    if not models:
        raise InputError("the server names no models: name one with -m")
    if len({model.root for model in models}) > 1:
        shown = ", ".join(model.id for model in models[:20]) + (", ..." if len(models) > 20 else "")
        raise InputError(f"the server has several models: name one with -m ({shown})")
    return models[0].id
