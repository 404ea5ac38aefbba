"""What a server and its engine's process say to one another, and how it lies in the bytes of their socket.

A frame is its length (4 bytes, big-endian) and a message in MessagePack, which is data only. Requests are
JSON inside of it, because what a client sent may hold whole numbers that MessagePack has no room for.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Any

import msgspec

from qanat.engine.reply import ReplyChunk
from qanat.engine.request_options import RequestOptions
from qanat.engine.stats import EngineStats
from qanat.server.chat_request import ChatRequest
from qanat.server.completion_request import CompletionRequest
from qanat.server.engine_client import (
    Detokenize,
    EngineOptions,
    Explain,
    ModelInfo,
    Question,
    Render,
    Request,
    Stats,
    Tokenize,
)
from qanat.server.responses import EchoedPrompt

__all__ = [
    "Answered",
    "Ask",
    "Cancel",
    "Chunk",
    "Ended",
    "ExplainJson",
    "Failed",
    "FromEngine",
    "Queued",
    "Ready",
    "Refused",
    "RenderJson",
    "Run",
    "Start",
    "ToEngine",
    "decode_from_engine",
    "decode_to_engine",
    "encode",
    "pack",
    "pack_question",
    "pack_request",
    "read_frame",
    "unpack_request",
]


class _Message(msgspec.Struct, tag=True, array_like=True):
    """A message."""


class Start(_Message):
    """The first of all: load this."""

    options: EngineOptions


class Run(_Message):
    """Answer a request; everything about it carries the same number."""

    id: int
    request: bytes
    options: RequestOptions


class Cancel(_Message):
    """Nobody waits for it any more."""

    id: int


class RenderJson(msgspec.Struct, frozen=True, tag=True):
    """`Render` with its request packed."""

    request: bytes


class ExplainJson(msgspec.Struct, frozen=True, tag=True):
    """`Explain` with its request packed."""

    request: bytes


class Ask(_Message):
    """Answer a question."""

    id: int
    question: Tokenize | Detokenize | RenderJson | ExplainJson | Stats


class Ready(_Message):
    """The model is loaded."""

    info: ModelInfo


class Failed(_Message):
    """The model cannot be loaded; the process ends. message: why, for a person."""

    message: str
    mendable: bool
    """Whether the user can do something about it; else it is a bug."""


class Queued(_Message):
    """A request is in order and waits or runs."""

    id: int
    echoed: list[EchoedPrompt] | None


class Chunk(_Message):
    """A request's next chunk."""

    id: int
    chunk: ReplyChunk


class Ended(_Message):
    """All chunks of a request have been sent."""

    id: int


class Refused(_Message):
    """A request or question ended with an error: its status, and the error object."""

    id: int
    status: int
    body: dict[str, Any]


class Answered(_Message):
    """The answer to a question."""

    id: int
    answer: list[int] | str | EngineStats


ToEngine = Start | Run | Cancel | Ask
FromEngine = Ready | Failed | Queued | Chunk | Ended | Refused | Answered

_encoder = msgspec.msgpack.Encoder()
_to_engine: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)
_from_engine: msgspec.msgpack.Decoder[FromEngine] = msgspec.msgpack.Decoder(FromEngine)


def pack(message: ToEngine | FromEngine) -> bytes:
    """A message in MessagePack."""
    return _encoder.encode(message)


def encode(message: ToEngine | FromEngine) -> bytes:
    """A message as a frame."""
    data = pack(message)
    return len(data).to_bytes(4, "big") + data


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The contents of the next frame; None when the other side has gone, be it in the middle of one."""
    try:
        return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def decode_to_engine(data: bytes) -> ToEngine:
    """What a server sent, without its length. msgspec.ValidationError if it is none of its messages."""
    return _to_engine.decode(data)


def decode_from_engine(data: bytes) -> FromEngine:
    """What an engine sent, without its length. msgspec.ValidationError if it is none of its messages."""
    return _from_engine.decode(data)


_KINDS: dict[str, type[Request]] = {"chat": ChatRequest, "completion": CompletionRequest}


def pack_request(request: Request) -> bytes:
    """A request that was read, as JSON."""
    kind = "chat" if isinstance(request, ChatRequest) else "completion"
    values = {name: getattr(request, name) for name in request.__dataclass_fields__}  # asdict copies deeply
    return json.dumps([kind, {**values, "params": asdict(request.params)}]).encode()


def unpack_request(data: bytes) -> Request:
    """What `pack_request` packed."""
    kind, fields = json.loads(data)
    return msgspec.convert(fields, _KINDS[kind], str_keys=True)


def pack_question(question: Question) -> Tokenize | Detokenize | RenderJson | ExplainJson | Stats:
    """A question, its request packed if it has one."""
    if isinstance(question, Render):
        return RenderJson(pack_request(question.request))
    if isinstance(question, Explain):
        return ExplainJson(pack_request(question.request))
    return question
