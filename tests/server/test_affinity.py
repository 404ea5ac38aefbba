"""Conversations find the replica they were at, are spread over all, and few move when one comes or goes."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any

import pytest
import typer.main

from qanat.cli.app import app
from qanat.errors import QanatError
from qanat.server.affinity import BEGINNING, conversation_key, rendezvous
from qanat.server.chat_request import read_chat_request
from qanat.server.completion_request import read_completion_request
from qanat.server.ray_serve.arguments import RayArguments, read_arguments

SYSTEM = {"role": "system", "content": "Be brief."}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def chat_key(*messages: dict[str, Any], salt: str = "", **more: Any) -> str:
    return conversation_key(read_chat_request({"messages": list(messages), **more}), salt)


def prompt_key(prompt: Any) -> str:
    return conversation_key(read_completion_request({"prompt": prompt}), "")


def test_a_conversation_keeps_its_key_while_it_grows_and_however_it_is_answered() -> None:
    first = chat_key(SYSTEM, user("hello"))
    answer = {"role": "assistant", "content": "hi"}
    assert chat_key(SYSTEM, user("hello"), answer, user("more"), stream=True, seed=5) == first
    assert prompt_key("x" * BEGINNING) == prompt_key("x" * BEGINNING + "y")
    assert prompt_key([5] * BEGINNING) == prompt_key([5] * BEGINNING + [6])


def test_conversations_of_others_have_other_keys_though_they_begin_with_the_same_system_prompt() -> None:
    keys = [
        chat_key(SYSTEM, user("hello")),
        chat_key(SYSTEM, user("hello"), salt="other"),
        chat_key(SYSTEM, user("bye")),
        chat_key(user("hello")),
        chat_key(SYSTEM),
        prompt_key("hello"),
        prompt_key([1]),
    ]
    assert len(set(keys)) == len(keys)


def winner(key: str, replicas: list[str]) -> str:
    return rendezvous(key, replicas, str)[0]


def test_every_router_makes_the_same_choice_in_whatever_order_it_knows_the_replicas() -> None:
    replicas = ["a", "b", "c", "d"]
    for key in map(str, range(50)):
        ranks = rendezvous(key, replicas, str)
        assert sorted(ranks) == replicas
        assert rendezvous(key, replicas[::-1], str) == ranks


def test_keys_are_spread_evenly_and_only_those_of_a_replica_that_leaves_move() -> None:
    replicas = [f"replica {number}" for number in range(8)]
    keys = [str(number) for number in range(4000)]
    before = {key: winner(key, replicas) for key in keys}
    counts = Counter(before.values())
    assert set(counts) == set(replicas)
    assert max(counts.values()) < 1.3 * 500
    after = {key: winner(key, replicas[1:]) for key in keys}
    assert all(after[key] == before[key] for key in keys if before[key] != replicas[0])
    moved = Counter(after[key] for key in keys if before[key] == replicas[0])
    assert len(moved) == 7  # to all others, not to a neighbour


def test_the_arguments_of_the_application_are_read_as_yaml_or_the_command_line_gives_them() -> None:
    read = read_arguments({"api_key_file": "none", "replicas": "3", "offline": "true", "threads": 2})
    assert read == RayArguments(api_key_file="none", replicas=3, offline=True, threads=2)
    assert read.keys is None
    assert read.engine.threads == 2
    assert read.engine.offline is True
    assert read.settings.names == ("pocket",)
    assert read.settings.most_requests == 3 * 72
    named = read_arguments({"api_key_file": "keys", "model": "Qwen/Qwen3.5-2B", "entrances": 2})
    assert named.settings.names == ("Qwen/Qwen3.5-2B", "Qwen3.5-2B")
    assert str(named.keys) == "keys"
    alone = read_arguments(
        {"api_key_file": "keys", "served_model_name": "a", "allow_origin": "https://A.org"}
    )
    assert alone.settings.names == ("a",)
    assert alone.settings.origins == ("https://a.org",)
    assert named.settings.most_requests == 72


def test_the_application_has_every_option_of_the_server_that_is_not_rays_to_decide() -> None:
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    options = {parameter.name for parameter in command.params} - {"host", "port", "restart_engine"}
    assert {field.name for field in fields(RayArguments)} == options | {"replicas", "entrances"}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({}, "api_key_file"),
        ({"api_key_file": "none", "replica": 2}, "replica"),
        ({"api_key_file": "none", "replicas": "many"}, "replicas"),
        ({"api_key_file": "none", "replicas": 0}, "replicas"),
        ({"api_key_file": "none", "backend": "cuda"}, "backend"),
        ({"api_key_file": "none", "allow_origin": "*"}, "--allow-origin"),
        ({"api_key_file": "none", "served_model_name": ["a", " "]}, "--served-model-name"),
        ({"api_key_file": "none", "drain": float("nan")}, "drain"),
        ({"api_key_file": "none", "request_timeout": 0}, "request_timeout"),
        ({"api_key_file": "none", "backend": "reference", "threads": 2}, "threads"),
    ],
)
def test_arguments_that_are_unknown_missing_or_out_of_range_are_refused(
    arguments: dict[str, Any], word: str
) -> None:
    with pytest.raises(QanatError, match=word):
        read_arguments(arguments)
