"""What server and engine say to one another arrives as it was sent, and ends quietly when one side goes."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from qanat.engine import PromptProgress, Reply, ReplyChunk, RequestOptions, TokenLogprob, Usage
from qanat.engine.reply import Alternative
from qanat.engine.stats import StepLog
from qanat.server.chat_request import ChatDefaults, read_chat_request
from qanat.server.completion_request import read_completion_request
from qanat.server.engine_client import ModelInfo, Stats
from qanat.server.engine_process import Host
from qanat.server.responses import EchoedPrompt
from qanat.server.wire import (
    Answered,
    Ask,
    Chunk,
    Queued,
    Ready,
    Refused,
    Run,
    decode_from_engine,
    decode_to_engine,
    encode,
    pack_request,
    read_frame,
    unpack_request,
)
from qanat.text.dialects import ReplyDelta, ToolCall
from tests.server.bodies import CHAT_FIELDS, COMPLETION_FIELDS, ask
from tests.server.http.fakes import FakeEngine

TOKEN = TokenLogprob(5, "\ufffd", b"\xe4\xbd", float("-inf"), (Alternative(6, "a", b"a", -0.5),))
CALL = ToolCall("id", "f", "{}")
REPLY = Reply(
    *("text", "thought", (CALL,), (5, 6), "tool_calls"),
    Usage(1, 2, 3, 4),
    logprobs=(TOKEN,),
    seed=2**64 - 1,
    prompt_logprobs=(None, TOKEN),
    choice_index=1,
)
STATS = StepLog(steps=3, computing=0.5).total(
    running=1, waiting=2, snapshots=3, free_pages=4, held_pages=5, pages=9
)
CHUNK = ReplyChunk("t", "r", (ReplyDelta("tool_call_start", "", 0, "f", "id"),), (5,), (TOKEN,), 2, 1, REPLY)


@pytest.mark.parametrize(
    "message",
    [
        Ready(ModelInfo(100)),
        Ready(ModelInfo(100, ChatDefaults(True, False, {"top_k": 20}, {"max_tokens": None}))),
        Chunk(1, ReplyChunk(progress=PromptProgress(9, 2, 4))),
        Queued(1, [EchoedPrompt("x", b"\xff")]),
        Queued(1, None),
        Chunk(2**40, CHUNK),
        Refused(1, 400, {"error": {"message": "no", "param": None}}),
        Answered(1, [1, 2]),
        Answered(1, "text"),
        Answered(1, STATS),
    ],
    ids=range(10),
)
def test_an_engines_message_arrives_as_it_was_sent(message: Any) -> None:
    assert decode_from_engine(encode(message)[4:]) == message


@pytest.mark.parametrize(
    "request_",
    [
        read_chat_request(CHAT_FIELDS),
        read_completion_request(COMPLETION_FIELDS),
        read_completion_request({"prompt": [[1, 2], [3]], "seed": -(2**63)}),
    ],
    ids=range(3),
)
def test_a_request_arrives_as_it_was_sent(request_: Any) -> None:
    message = Run(7, pack_request(request_), RequestOptions(priority=-1, timeout=0.5, cache_salt="s"))
    got = decode_to_engine(encode(message)[4:])
    assert got == message
    assert unpack_request(message.request) == request_


def test_what_is_no_message_is_refused_by_its_type() -> None:
    for data in (b"", b"\xc1", msgspec.msgpack.encode(["Run", 1]), msgspec.msgpack.encode(["Chunk", 1, {}])):
        with pytest.raises(msgspec.DecodeError):
            decode_to_engine(data)


def test_a_frame_that_ends_early_is_the_other_sides_end() -> None:
    whole = encode(Ask(1, Stats()))

    async def main() -> None:
        for length in range(len(whole)):
            reader = asyncio.StreamReader()
            reader.feed_data(whole[:length])
            reader.feed_eof()
            assert await read_frame(reader) is None
        reader = asyncio.StreamReader()
        reader.feed_data(whole * 2)
        assert await read_frame(reader) == await read_frame(reader) == whole[4:]

    asyncio.run(main())


class GoneWriter:
    """A socket whose other end was closed."""

    def write(self, data: bytes) -> None:
        pass

    async def drain(self) -> None:
        raise ConnectionResetError("Connection lost")


def test_a_server_that_has_gone_is_no_bug(capfd: pytest.CaptureFixture[str]) -> None:
    """The process ends as soon as it reads that; until then nothing is worth a traceback."""
    engine = FakeEngine()

    async def main() -> None:
        host = Host(engine, GoneWriter())  # type: ignore[arg-type]
        host.take(Run(1, pack_request(read_chat_request({"messages": ask()})), RequestOptions()))
        host.take(Ask(2, Stats()))
        await asyncio.gather(*host.tasks.values())

    asyncio.run(main())
    assert engine.left == 1
    assert capfd.readouterr() == ("", "")
