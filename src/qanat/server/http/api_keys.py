"""The keys that clients may show: one a line in a file, read again whenever the file has changed."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
from pathlib import Path

from qanat.errors import RequestError
from qanat.server.key_file import check_key, read_keys

__all__ = ["ApiKeys"]

_HOST_SECRET = secrets.token_bytes(32)
"""Makes salts that nobody can compute from a key, in this process only."""


class ApiKeys:
    """The keys of a file, which has the form of `read_keys`.

    While the file cannot be read, or holds no key, nobody is let in.

    Args:
        path: the file.
        secret: what salts are made with; processes that share it make the same ones.

    Raises:
        RequestError: so it is from the beginning, or it holds what cannot be a key.
    """

    def __init__(self, path: Path, *, secret: bytes = _HOST_SECRET) -> None:
        self._path = path
        self._secret = secret
        self._seen: tuple[int, int, int] | None = None
        self._digests: list[bytes] = []
        for number, key in self._reload():
            check_key(key, f"{path}: line {number}")
        if not self._digests:
            raise RequestError(f"{path}: there is no key in it: write one a line into it")

    def salt(self, shown: list[str]) -> str | None:
        """What keeps a client's cached prefixes apart from those of others; None if no shown key is good.

        The time it takes does not depend on how much of a key is right.
        """
        with contextlib.suppress(RequestError):  # there are no keys then
            self._reload()
        for key in shown:
            digest = _digest(key.encode("utf-8", "surrogateescape"))
            if any(hmac.compare_digest(digest, known) for known in self._digests):
                return hmac.new(self._secret, digest, "sha256").hexdigest()
        return None

    def _reload(self) -> list[tuple[int, str]]:
        """Read the file if it is another than before: its lines, none if it is the same. RequestError."""
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen == self._seen:
                return []
            lines = read_keys(self._path)
        except (OSError, ValueError, RequestError) as error:  # ValueError: a name with a NUL in it
            self._seen, self._digests = None, []
            if isinstance(error, RequestError):
                raise
            raise RequestError(f"{self._path}: {getattr(error, 'strerror', None) or error}") from None
        self._seen, self._digests = seen, [_digest(key.encode()) for _, key in lines]
        return lines


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
