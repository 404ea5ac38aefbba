"""Requests that are wrong before their bodies: paths, names, keys, the protocol itself, sizes, time."""

from __future__ import annotations

from collections.abc import Iterator

from tests.server.http.bad_bodies import (
    CHAT,
    DETOKENIZE,
    MOST_BODY,
    NEEDED,
    TEMPLATE,
    TEXT,
    TOKENIZE,
    Bad,
    request,
)

METHODS = {
    "GET": ["/health", "/metrics", "/v1/models", "/v1/models/pocket"],
    "POST": [CHAT, TEXT, TOKENIZE, DETOKENIZE, TEMPLATE],
}
NOWHERE = [
    *(
        "/v1",
        "/v1/",
        "/v1/chat",
        "/v1/chat/completion",
        "/v1/chat/completions/",
        "/v1/completions/x",
        "/V1/MODELS",
    ),
    *(
        "/v1/responses",
        "/v1/embeddings",
        "/v2/models",
        "//v1/models",
        "/v1//models",
        "/./v1/models",
        "/v1/../v1/models",
    ),
    *(
        "/health/",
        "//health",
        "/%2e/health",
        "/health%00",
        "/health%0d%0aX:y",
        "/health;x=1",
        "/metrics/",
        "/docs/x",
    ),
    *(
        "/../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%ff%fe",
        "/%",
        "/%zz",
        "/" + "x" * 20_000,
        "*",
        "http://[/",
    ),
    *("/.env", "/api/tags", "/v1/chat/completions%20", "/tokenize/", "/detokenize?/x", "localhost:80")[:-2],
]


def paths() -> Iterator[Bad]:
    for right, targets in METHODS.items():
        for target in targets:
            for method in (
                "GET",
                "POST",
                "PUT",
                "DELETE",
                "PATCH",
                "OPTIONS",
                "TRACE",
                "BREW",
                "get",
                "M-SEARCH",
            ):
                if method != right:
                    yield Bad(request(method, target), 405, "method")
    for target in NOWHERE:
        for method in ("GET", "POST"):
            yield Bad(request(method, target), 404, "nothing under this path")
    for name in (
        "gpt-4o",
        "pocket/",
        "POCKET",
        "..",
        "%2e%2e",
        "pocket%00",
        "a/b/c",
        "x" * 5000,
        "%f0%9f%99%82",
    ):
        yield Bad(request("GET", f"/v1/models/{name}"), 404, "no model", "model", "model_not_found")


HOSTS = [
    *(
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
    ),
    *(
        "evil.example#localhost",
        "evil.example/localhost",
        "localhost@evil.example",
        "localhost:80@evil.example",
        "",
    ),
    *(
        "[",
        "]",
        "[::1",
        "[::2]",
        "::1",
        "a:b",
        "localhost:x",
        "localhost:99999",
        "128.0.0.1",
        "0.0.0.0",
        "10.0.0.1",
    ),
    *(
        "169.254.169.254",
        "http://localhost",
        "localhost, evil.example",
        "local host",
        "xn--lcalhost-",
        "localhost\\",
    ),
    *("localhost?", "localhost.", "2130706433", "0x7f.1"),
]
ORIGINS = [
    *(
        "https://evil.example",
        "http://evil.example",
        "null",
        "",
        "localhost",
        "http://localhost.evil.example",
        "file://",
    ),
    *(
        "https://localhost",
        "http://localhost:1",
        "http://127.0.0.1",
        "http://localhost/",
        "HTTP://LOCALHOST",
        "*",
    ),
    *(
        "https://page.example.evil",
        "http://page.example",
        "https://page.example:444",
        "https://PAGE.example.",
        "a b",
    ),
    *(
        "https://page.example, https://evil.example",
        "chrome-extension://x",
        "data:",
        "https://sub.page.example",
    ),
]


def strangers() -> Iterator[Bad]:
    for host in HOSTS:
        for method, path in (("GET", "/health"), ("POST", CHAT)):
            data = request(method, path, b"{}" if method == "POST" else b"", host=host)
            yield Bad(data, 403, "Host header", code="host_not_allowed")
    yield Bad(b"GET /health HTTP/1.0\r\n\r\n", 403, "Host header", code="host_not_allowed")
    for origin in ORIGINS:
        for method, path in (("GET", "/v1/models"), ("POST", CHAT), ("OPTIONS", CHAT)):
            body = b"{}" if method == "POST" else b""
            lines = [
                f"Origin: {origin}",
                *(["Access-Control-Request-Method: POST"] if method == "OPTIONS" else []),
            ]
            yield Bad(request(method, path, body, *lines), 403, "origin", code="origin_not_allowed")


KEYS: list[list[str]] = [
    [],
    *(
        [f"Authorization: {text}"]
        for text in ("", "Bearer", "Bearer ", "Bearer  ", "Bearer wrong", "Bearer firs")
    ),
    *(
        [f"Authorization: {text}"]
        for text in ("Bearer firstx", "Bearer FIRST", "bearer second first", "first")
    ),
    *(
        [f"Authorization: {text}"]
        for text in ("Basic first", "Basic Zmlyc3Q=", "Token first", "Bearer\tfirst")
    ),
    *(
        [f"Authorization: {text}"]
        for text in ("Bearer first,second", "Bearer:first", "Bearer # ours", "Bearer *")
    ),
    *(
        [f"X-Api-Key: {text}"]
        for text in ("", "wrong", "firs", "firstsecond", "first second", "Bearer first", "# ours")
    ),
    *([f"X-Api-Key: {text}"] for text in ("x" * 20_000, "\xff\xfe", "' OR 1=1 --", "first%00", "null")),
    ["Api-Key: first"],
    ["Cookie: key=first"],
    ["X-Api-Key: wrong", "X-Api-Key: wronger"],
    ["X-Api-Key: wrong", "Authorization: Bearer wrong"],
]


def keyless() -> Iterator[Bad]:
    """Against a server whose keys are `first` and `second`."""
    for lines in KEYS:
        for method, path in (("GET", "/v1/models"), ("POST", CHAT)):
            data = request(method, path, b"{}" if method == "POST" else b"", *lines)
            yield Bad(data, 401, "API key", code="invalid_api_key")


START = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
UPLOAD = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = UPLOAD + b"Transfer-Encoding: chunked\r\n\r\n"
NO_HTTP: list[tuple[bytes, str]] = [
    *(
        (text + b"\r\n\r\n", "illegal request line")
        for text in (
            *(
                b"GET",
                b"GET /health",
                b"GET /health HTTP",
                b"GET /health HTTP/1",
                b"GET /health http/1.1",
                b"hello",
            ),
            *(
                b"GET  /health HTTP/1.1",
                b" GET /health HTTP/1.1",
                b"GET /health HTTP/1.1 ",
                b"GET\t/health\tHTTP/1.1",
            ),
            *(
                b"GET /health HTTP/11",
                b"GET /a b HTTP/1.1",
                b"GET /\xff HTTP/1.1",
                b"G@T / HTTP/1.1",
                b"GET /\x00 HTTP/1.1",
            ),
            *(
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                b"SSH-2.0-x",
                b"\x00\x00\x00",
                b'{"a": 1}',
                b"*1",
            ),
        )
    ),
    *(
        (b"GET /health HTTP/%b\r\nHost: localhost\r\nConnection: close\r\n\r\n" % version, "HTTP")
        for version in (b"2.0", b"3.0", b"0.9")
    ),
    (b"PRI * HTTP/2.0\r\nConnection: close\r\n\r\nSM\r\n\r\n", "HTTP"),
    (b"\r\n\r\n\r\n", "request line"),
    (b"GET /health HTTP/1.1\r\n\r\n", "Missing mandatory Host"),
    (START + b"Host: localhost\r\n\r\n", "multiple Host"),
    (START + b"hOST: evil.example\r\n\r\n", "multiple Host"),
    *(
        (START + line + b"\r\n\r\n", "header line")
        for line in (
            b"a b: c",
            b"a : c",
            b": c",
            b"no colon",
            b"a\x00: c",
            b"a: \x00",
            b"a: b\x00c",
            b"(a): b",
            b"\xff: c",
        )
    ),
    (b"GET /health HTTP/1.1\r\n Host: localhost\r\n\r\n", "continuation line"),
    *(
        (UPLOAD + b"Content-Length: %b\r\n\r\n{}" % length, "Content-Length")
        for length in (
            b"-1",
            b"+2",
            b"2.0",
            b"0x2",
            b"two",
            b"",
            b"1e1",
            b"2, 3",
            b"9" * 30,
            b"2;",
            b"\xb2",
            b"1_0",
        )
    ),
    (UPLOAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "conflicting Content-Length"),
    *(
        (UPLOAD + b"Transfer-Encoding: %b\r\n\r\n" % coding, "Transfer-Encoding")
        for coding in (b"gzip", b"identity", b"gzip, chunked", b"chunked, gzip", b"xchunked", b"")
    ),
    (UPLOAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding"),
    *(
        (CHUNKED + size + b"\r\n", "chunk")
        for size in (b"zz", b"-1", b"0x2", b"", b" 2", b"f" * 30, b"2\r\n{}xx", b"1\r\n{}")
    ),
]
"""What is no request, and a word for why; all are 400."""


def no_http() -> Iterator[Bad]:
    for data, word in NO_HTTP:
        yield Bad(data, 400, word)


def sizes() -> Iterator[Bad]:
    """Too much of something. Bodies against `MOST_BODY`, heads against 32 KiB."""
    large = b"x" * 8_000_000
    for data in (
        START + b"X: " + large + b"\r\n\r\n",
        START + b"X: y\r\n" * 1_300_000 + b"\r\n",
        START + large,
        b"GET /" + large + b" HTTP/1.1\r\n\r\n",
        large,
        b"GET /health HTTP/1.1\r\nHost: " + b"x" * 100_000 + b"\r\n\r\n",
        START + b"Cookie: " + b"a=b; " * 10_000 + b"\r\n\r\n",
        START + b"X-Api-Key: " + b"x" * 40_000 + b"\r\n\r\n",
    ):
        yield Bad(data, 431, "head")
    over = b"x" * (MOST_BODY + 1)
    for path in NEEDED:
        head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" % path.encode()
        yield Bad(request("POST", path, over), 413, str(MOST_BODY))
        chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(over), over)
        yield Bad(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks, 413, str(MOST_BODY))
        small = b"3e8\r\n%b\r\n" % (b"x" * 1000)
        yield Bad(
            head + b"Transfer-Encoding: chunked\r\n\r\n" + small * 1001 + b"0\r\n\r\n", 413, str(MOST_BODY)
        )
        for coding in ("gzip", "deflate", "br", "zstd", "gzip, identity", "x"):
            line = f"Content-Encoding: {coding}"
            yield Bad(request("POST", path, b"\x1f\x8b\x08\x00", line), 415, "Content-Encoding")


def promised() -> Iterator[Bad]:
    """Bodies that are announced as too large, and never come."""
    for path in NEEDED:
        head = b"POST %b HTTP/1.1\r\nHost: localhost\r\n" % path.encode()
        for length in (10**6 + 1, 10**12, 10**19):
            yield Bad(head + b"Content-Length: %d\r\n\r\n" % length, 413, str(MOST_BODY))
        yield Bad(head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % 10**9, 413, str(MOST_BODY))


def slow() -> Iterator[Bad]:
    """Against a server that waits for next to nothing."""
    for path in NEEDED:
        head = b"POST %b HTTP/1.1\r\nHost: localhost\r\n" % path.encode()
        yield Bad(head + b"Content-Length: 1000\r\n\r\n{", 408, "body", drips=True)
        yield Bad(head + b"Transfer-Encoding: chunked\r\n\r\n400\r\n{", 408, "body", drips=True)
        yield Bad(head + b"X: y", 408, "head", drips=True)
