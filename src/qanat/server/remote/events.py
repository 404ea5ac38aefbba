"""Server-sent events, read out of the bytes of a body."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator

from qanat.server.remote.errors import RemoteError

__all__ = ["MOST_LINE", "events"]

MOST_LINE = 16 * 1024 * 1024
"""Bytes of one event: a server must not be able to fill our memory."""


def events(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each event; comments and other fields are left out, and so is an event without an end.

    Source: the HTML standard, "Server-sent events". A line may end in LF or CR LF; a byte order mark before
    the first is left out.
    """
    data: list[bytes] = []
    size = 0
    for number, line in enumerate(_lines(pieces)):
        if number == 0:
            line = line.removeprefix(BOM_UTF8)
        if not line:
            if data:
                yield b"\n".join(data)
            data, size = [], 0
            continue
        field, _, value = line.partition(b":")
        if field == b"data":
            size += len(value)
            if size > MOST_LINE:
                raise _too_long()
            data.append(value.removeprefix(b" "))


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines without their ends. Each byte is looked at once, however small the pieces are."""
    begun: list[bytes] = []
    size = 0
    for piece in pieces:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield b"".join([*begun, end]).removesuffix(b"\r")
            begun, size = [], 0
        begun.append(rest)
        size += len(rest)
        if size > MOST_LINE:
            raise _too_long()


def _too_long() -> RemoteError:
    return RemoteError(f"the server sent an event of more than {MOST_LINE >> 20} MiB: this is no answer")
