"""Where the server listens."""

from __future__ import annotations

import ipaddress
import socket

from qanat.errors import RequestError

__all__ = ["listen", "url"]


def listen(host: str, port: int, *, keys: bool) -> socket.socket:
    """A socket that is bound and listens.

    Args:
        host: an address, or a name that has one.
        port: 0 takes any that is free.
        keys: whether clients must show one.

    Raises:
        RequestError: the address is not ours or is taken; or others than this machine reach it without a key.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise RequestError(f"--host {host}: there is no such address") from None
    # The address counts, not the name: a name means what the network says.
    if not keys and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise RequestError(
            f"--host {host} can be reached from other machines, and anybody there could use the model: "
            "give --api-key-file as well, or listen on 127.0.0.1"
        )
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise RequestError(
            f"cannot listen on {host} port {port} ({error.strerror}): choose another with --port or --host"
        ) from None
    return listener


def url(listener: socket.socket) -> str:
    """How a client on this machine calls it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"
