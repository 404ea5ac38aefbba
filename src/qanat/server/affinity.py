"""Which of several replicas a request goes to: the one that has the conversation's prefix.

Every router computes the same choice by itself (rendezvous hashing: Thaler and Ravishankar, 1998): each pair
of conversation and replica has a number, and the replica with the largest wins. When a replica comes or goes,
only the conversations move that it won or wins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import TypeVar

from qanat.server.chat_request import ChatRequest
from qanat.server.engine_client import Request

__all__ = ["BEGINNING", "conversation_key", "rendezvous"]

T = TypeVar("T")

BEGINNING = 256
"""Characters or ids of a completion's prompt that tell it from others; they stay as it grows."""


def conversation_key(request: Request, salt: str) -> str:
    """What stays the same while a conversation grows, and differs between conversations.

    Its messages up to the first of the user: what comes before, such as a system prompt, is shared by many,
    who are to be spread over all replicas (each of which then has it too).
    """
    start: object
    if isinstance(request, ChatRequest):
        roles = [message["role"] for message in request.messages]
        start = request.messages[: roles.index("user") + 1] if "user" in roles else request.messages[:1]
    else:
        start = request.prompts[0][:BEGINNING]
    data = json.dumps([salt, start], sort_keys=True).encode()
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def rendezvous(key: str, replicas: Iterable[T], name: Callable[[T], str]) -> list[T]:
    """The replicas, the one that is best for this key first. name: what a replica is called all its life."""

    def rank(replica: T) -> bytes:
        return hashlib.blake2b(f"{key} {name(replica)}".encode(), digest_size=16).digest()

    return sorted(replicas, key=rank, reverse=True)
