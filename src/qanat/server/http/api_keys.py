"""The keys that clients may show: one a line in a file, read again whenever the file has changed."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from qanat.errors import RequestError

__all__ = ["ApiKeys"]

_HOST_SECRET = secrets.token_bytes(32)
"""Makes salts that nobody can compute from a key, in this process only."""


class ApiKeys:
    """Keys of a file. Blank lines and lines that begin with `#` are none.

    While the file cannot be read, or holds no key, nobody is let in.

    Args:
        path: the file.
        secret: what salts are made with; processes that share it make the same ones.

    Raises:
        RequestError: so it is from the beginning.
    """

    def __init__(self, path: Path, *, secret: bytes = _HOST_SECRET) -> None:
        self._path = path
        self._secret = secret
        self._seen: tuple[int, int, int] | None = None
        self._digests: list[bytes] = []
        problem = self._reload()
        if problem is not None:
            raise RequestError(f"{path}: {problem}: write one key a line into it")

    def salt(self, shown: list[str]) -> str | None:
        """What keeps a client's cached prefixes apart from those of others; None if no shown key is good.

        The time it takes does not depend on how much of a key is right.
        """
        self._reload()
        for key in shown:
            digest = _digest(key.encode("utf-8", "surrogateescape"))
            if any(hmac.compare_digest(digest, known) for known in self._digests):
                return hmac.new(self._secret, digest, "sha256").hexdigest()
        return None

    def _reload(self) -> str | None:
        """Read the file if it is another than before; what is wrong with it, if something is."""
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                lines = [line.strip() for line in self._path.read_bytes().splitlines()]
                self._digests = [_digest(line) for line in lines if line and not line.startswith(b"#")]
                self._seen = seen
        except OSError as error:
            self._seen, self._digests = None, []
            return error.strerror or str(error)
        return None if self._digests else "there is no key in it"


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
