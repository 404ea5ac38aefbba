"""The files of the page at `/`: read once, served from memory, with the rules that a browser holds them to.

They are the same for everybody and hold nothing secret, so they need no key: a browser cannot show one when
it opens an address. What the page then asks for needs one like everything else.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

__all__ = ["CONTENT_SECURITY_POLICY", "page_paths", "serve_page"]

_FOLDER = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
"""Nothing else lies there to be served; licences and remarks are for who reads the source."""

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",  # KaTeX sets its lengths through the DOM, which no policy forbids
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        # No string becomes HTML or a script's address but through DOMPurify and the worker's one name.
        "require-trusted-types-for 'script'",
        "trusted-types dompurify qanat-worker",
    ]
)

_HEADERS = {
    "cache-control": "no-cache",  # kept, but asked about each time: a new qanat shows its new page
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True)
class _File:
    data: bytes
    kind: str
    etag: str


@cache
def _files() -> dict[str, _File]:
    """Every file by its path in the address."""
    found = {}
    for file in sorted(_FOLDER.rglob("*")):
        kind = _TYPES.get(file.suffix)
        if kind is not None:
            data = file.read_bytes()
            etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
            found[f"/page/{file.relative_to(_FOLDER).as_posix()}"] = _File(data, kind, etag)
    found["/"] = found.pop("/page/index.html")
    return found


def page_paths() -> frozenset[str]:
    """The paths of all files."""
    return frozenset(_files())


async def serve_page(request: Request) -> Response:
    """One file, or 304 if the browser has it. HTTPException 404."""
    path = request.scope["path"]  # looked up as it is: no request reaches the file system
    file = _files().get(path)
    if file is None:
        raise HTTPException(404)
    headers = {**_HEADERS, "etag": file.etag}
    if path == "/page/worker.js":
        headers["service-worker-allowed"] = "/"  # it answers for the page, which lies above it
    asked = request.headers.get("if-none-match", "")
    if file.etag in (tag.strip().removeprefix("W/") for tag in asked.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(file.data, headers={**headers, "content-type": file.kind})
