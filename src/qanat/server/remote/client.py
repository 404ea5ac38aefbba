"""A client of one server: which models it has, and answers of chats as they stream in."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2

from qanat.server.remote.chunks import RemoteChunk, ReplyReader
from qanat.server.remote.errors import MOST_MESSAGE, RemoteError, refused, shortened
from qanat.server.remote.events import events

__all__ = ["ListedModel", "RemoteClient"]

MOST_BODY = 4 * 1024 * 1024
"""Bytes of an answer that is read whole."""


@dataclass(frozen=True)
class ListedModel:
    """A name that a server answers to."""

    id: str
    root: str
    """What is behind the name: several names of one model have the same root."""


class RemoteClient:
    """Asks a server. Used by one thread.

    Args:
        base: what `base_url` made of the user's URL.
        key: is sent as `Authorization: Bearer KEY`.
        connecting: seconds until a connection must stand.
        silence: seconds in which nothing comes, until an answer counts as lost. Long prompts take long, and
            not every server says meanwhile that it is alive.

    Raises:
        RemoteError: the environment names a proxy or certificates that cannot be used.
    """

    def __init__(
        self, base: str, key: str | None = None, *, connecting: float = 10.0, silence: float = 600.0
    ) -> None:
        self._base = base
        self._key = key
        self._connecting, self._silence = connecting, silence
        # Redirects are not followed: they would take the key and the conversation to another server.
        try:
            self._http = httpx2.Client(
                # Not compressed: a compressor holds back what should be seen at once.
                headers={
                    "accept-encoding": "identity",
                    **({"authorization": f"Bearer {key}"} if key else {}),
                },
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # none is kept, of anybody
                timeout=httpx2.Timeout(silence, connect=connecting),
                follow_redirects=False,
                # A connection for each answer: people think for minutes, and a server may close one just as
                # it is used again.
                limits=httpx2.Limits(max_keepalive_connections=0),
            )
        except (ValueError, ImportError, OSError, httpx2.InvalidURL) as error:
            raise RemoteError(
                f"no connection can be made as the environment wants it ({_reason(error)}): see to "
                "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
            ) from None

    def close(self) -> None:
        """Free what the client holds."""
        self._http.close()

    def models(self) -> list[ListedModel]:
        """The names of models that can be asked for, as far as the list has them in its form. RemoteError."""
        with self._asking("GET", "/models") as answer:
            body = _beginning(answer)
        try:
            found = json.loads(body)["data"]
        except (ValueError, RecursionError, KeyError, TypeError):
            found = None
        if not isinstance(found, list):
            raise RemoteError(f"{self._base}/models gives no list of models: name one with -m")
        models = [model for model in found if isinstance(model, dict) and _is_name(model.get("id"))]
        return [
            ListedModel(model["id"], model["root"] if _is_name(model.get("root")) else model["id"])
            for model in models
        ]

    def chat(self, body: dict[str, Any]) -> Generator[RemoteChunk, None, None]:
        """Send a body of /chat/completions, which must ask for a stream; the last chunk has the reply.

        Closing the iterator closes the connection, by which a server knows that nobody waits any more.

        Raises:
            RemoteError: while it is read.
        """
        reader = ReplyReader()
        with self._asking("POST", "/chat/completions", body) as answer:
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "text/event-stream":
                raise RemoteError(
                    f"the server answers with {shortened(kind) or 'nothing that has a type'} instead of a "
                    "stream of events: is this the address of an OpenAI API?"
                )
            ended = False
            try:
                for data in events(answer.iter_bytes()):
                    if data.strip() == b"[DONE]":
                        ended = True
                        break
                    yield reader.feed(data)
            except httpx2.TransportError:
                if reader.finish_reason is None:  # else only what follows the answer is missing
                    raise
            if not ended and reader.finish_reason is None:
                raise RemoteError("the answer broke off: the server closed the connection")
        yield RemoteChunk(reply=reader.end())

    @contextmanager
    def _asking(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> Iterator[httpx2.Response]:
        """An answer of status 200 whose body is still to be read; what goes wrong is a RemoteError."""
        url = self._base + path
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        headers = {} if data is None else {"content-type": "application/json"}
        try:
            with self._http.stream(method, url, content=data, headers=headers) as answer:
                if answer.status_code != 200:
                    told = {name.lower(): value for name, value in answer.headers.items()}
                    raise refused(
                        answer.status_code, _beginning(answer), told, url=url, key=self._key is not None
                    )
                yield answer
        except httpx2.ConnectTimeout:
            raise RemoteError(f"{self._base} does not answer within {self._connecting:g} s") from None
        except httpx2.TimeoutException:
            raise RemoteError(f"the server said nothing for {self._silence:g} s: given up") from None
        except httpx2.ConnectError as error:
            raise RemoteError(
                f"{self._base} cannot be reached ({_reason(error)}): does a server run there?"
            ) from None
        except (
            httpx2.RequestError,
            httpx2.InvalidURL,
            UnicodeError,
        ) as error:  # UnicodeError: a proxy's name
            raise RemoteError(f"the connection to {self._base} broke ({_reason(error)})") from None


def _beginning(answer: httpx2.Response) -> bytes:
    """The body, or as much of it as any honest one has."""
    pieces, size = [], 0
    for piece in answer.iter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BODY:
            break
    return b"".join(pieces)


def _is_name(value: Any) -> bool:
    """Whether it can be the name of a model: text that can be shown and sent back."""
    if not isinstance(value, str) or not value.strip() or len(value) > MOST_MESSAGE:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
