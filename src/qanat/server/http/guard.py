"""Who may come in: one layer over every route. Host, then origin, then key, before anything is read.

`Host`: a page of another site can make its own name mean 127.0.0.1 (DNS rebinding), and a browser then lets
it read our answers; the name it asks for gives it away. Where keys are asked for it could not show one, and
names are not checked. `Origin`: a browser says which site's page is asking.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qanat.server.http.api_keys import ApiKeys
from qanat.server.http.replies import refusal, response_headers

__all__ = ["SALT", "Guard"]

SALT = "qanat.salt"
"""Where in the scope the salt for the prefix cache lies."""


class Guard:
    """Lets requests through to `app`, or answers them itself.

    Args:
        app: what they want.
        keys: who may; None: everybody.
        host: the address that was bound, as it was named.
        origins: sites whose pages may ask.
        open_paths: what needs no key.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: ApiKeys | None,
        host: str,
        origins: tuple[str, ...],
        open_paths: frozenset[str],
    ) -> None:
        self._app = app
        self._open_paths = open_paths
        self._keys = keys
        self._hosts = {"localhost", host.lower(), *(urlsplit(origin).hostname for origin in origins)}
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        headers = Headers(scope=scope)
        if not scope["http_version"].startswith("1."):
            await refusal(400, f"HTTP/{scope['http_version']} is not spoken here: ask with HTTP/1.1")(
                scope, receive, send
            )
            return
        if self._keys is None and not self._is_our_name(headers.get("host", "")):
            await refusal(
                403,
                "this server answers to localhost and its own address only: the Host header names another; "
                "with --api-key-file any name is good",
                "host_not_allowed",
            )(scope, receive, send)
            return
        origin = headers.get("origin")
        if origin is not None:
            if not self._is_allowed(origin, headers.get("host", ""), scope["scheme"]):
                await refusal(
                    403,
                    "pages of this origin may not use the server: --allow-origin lets them",
                    "origin_not_allowed",
                )(scope, receive, send)
                return
            send = _with_origin(send, origin)
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                await _preflight()(scope, receive, send)
                return
        scope[SALT] = ""
        if self._keys is not None and scope["path"] not in self._open_paths:
            salt = self._keys.salt(_shown_keys(headers))
            if salt is None:
                await refusal(
                    401,
                    "no API key, or a wrong one: send `Authorization: Bearer KEY` or `X-Api-Key: KEY`",
                    "invalid_api_key",
                    {"www-authenticate": "Bearer"},
                )(scope, receive, send)
                return
            scope[SALT] = salt
        await self._app(scope, receive, send)

    def _is_our_name(self, host: str) -> bool:
        name = _name(host)
        return name is not None and (name in self._hosts or _is_loopback(name))

    def _is_allowed(self, origin: str, host: str, scheme: str) -> bool:
        return origin in self._origins or "*" in self._origins or origin == f"{scheme}://{host}"


def _name(host: str) -> str | None:
    """The name in a Host header, without its port; None if it is no host at all."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - raises if it is no number
    except ValueError:
        return None
    return parts.hostname if parts.netloc == host else None


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _shown_keys(headers: Headers) -> list[str]:
    keys = headers.getlist("x-api-key")
    for value in headers.getlist("authorization"):
        scheme, _, key = value.partition(" ")
        if scheme.lower() == "bearer":
            keys.append(key.strip())
    return keys


def _preflight() -> Response:
    return Response(
        status_code=204,
        headers={
            **response_headers("text/plain"),
            "access-control-allow-methods": "GET, POST",
            "access-control-allow-headers": "*, authorization, content-type, x-api-key",
            "access-control-max-age": "600",
        },
    )


def _with_origin(send: Send, origin: str) -> Send:
    """Tell the browser that the page may read the answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["access-control-allow-origin"] = origin
            headers["access-control-expose-headers"] = "retry-after, x-request-id"
            headers.add_vary_header("origin")
        await send(message)

    return sending
