"""A local server that speaks as much of the hub's protocol as its client uses, and misbehaves on request."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """One repository of files in memory, served at `url`."""

    def __init__(self, name: str, files: dict[str, bytes], commit: str = COMMIT) -> None:
        self.name, self.files, self.commit = name, files, commit
        self.requests: list[tuple[str, str, str | None]] = []  # method, path, Range header
        self.refuse: tuple[int, str] | None = None  # status and X-Error-Code of every answer
        self.cut: dict[str, int] = {}  # file -> break the connection after so many bytes, once
        self.after_cut: tuple[int, str] | None = None  # what `refuse` becomes when a connection was broken
        self.refusal_body = b"{}"
        self.cut_always = ""  # file -> break every connection before its first byte
        self.ranges = True  # whether Range is understood
        self.sha256 = False  # etags as the hub gives them to large files
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def fetched(self) -> set[str]:
        """The files whose bytes were asked for."""
        found = (
            re.search(r"/resolve/[^/]+/(.+)", path) for method, path, _ in self.requests if method == "GET"
        )
        return {match[1] for match in found if match}

    def __enter__(self) -> FakeHub:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _entries(self) -> list[dict[str, object]]:
        return [
            {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
            for name, data in self.files.items()
        ]

    def _handler(hub) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler below
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self._answer(body=False)

            def do_GET(self) -> None:
                self._answer(body=True)

            def _send(self, status: int, data: bytes, headers: dict[str, str], body: bool = True) -> None:
                self.send_response(status)
                for key, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                if body:
                    self.wfile.write(data)

            def _answer(self, *, body: bool) -> None:
                path = unquote(urlsplit(self.path).path)
                hub.requests.append((self.command, path, self.headers.get("Range")))
                if hub.refuse:
                    status, code = hub.refuse
                    self._send(status, hub.refusal_body, {"X-Error-Code": code} if code else {}, body)
                    return
                api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path)
                if api and api[1] == hub.name:
                    self._api(api[2], api[3])
                    return
                file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
                if file and file[1] == hub.name and file[3] in hub.files:
                    self._file(file[3], body)
                    return
                code = "EntryNotFound" if file else "RepoNotFound"
                self._send(404, b"{}", {"X-Error-Code": code}, body)

            def _api(self, what: str | None, revision: str | None) -> None:
                if revision not in (None, "main", "v1", hub.commit):
                    self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
                elif what == "tree":
                    self._json(hub._entries())
                else:
                    siblings = [{"rfilename": e["path"], "size": e["size"]} for e in hub._entries()]
                    self._json({"id": hub.name, "sha": hub.commit, "siblings": siblings, "private": False})

            def _json(self, content: object) -> None:
                self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

            def _file(self, name: str, body: bool) -> None:
                data = hub.files[name]
                digest = hashlib.sha256(data) if hub.sha256 else hashlib.sha1(data)
                headers = {
                    "ETag": f'"{digest.hexdigest()}"',
                    "X-Repo-Commit": hub.commit,
                    "Accept-Ranges": "bytes",
                }
                if not body:
                    self._send(200, data, headers, body=False)
                    return
                start, status = 0, 200
                wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
                if wanted and hub.ranges:
                    start, status = int(wanted[1]), 206
                    headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
                part = data[start:]
                limit = 0 if hub.cut_always == name else hub.cut.pop(name, None)
                if limit is None:
                    self._send(status, part, headers)
                    return
                self.send_response(status)
                for key, value in {"Content-Length": str(len(part)), **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(part[:limit])
                self.close_connection = True
                hub.refuse = hub.after_cut or hub.refuse

        return Handler
