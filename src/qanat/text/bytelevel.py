"""The printable alphabet in which a byte-level vocabulary is written (docs/frontend.md, section 5).

Each of the 256 bytes has one printable character, so that tokenizer.json can hold tokens that are not
valid UTF-8. The map is the one of GPT-2 (Radford et al., 2019).
"""

from __future__ import annotations

__all__ = ["BYTE_TO_CHAR", "CHAR_TO_BYTE", "from_bytes", "to_bytes"]


def _alphabet() -> str:
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return "".join(chr(byte if byte in printable else next(spare)) for byte in range(256))


BYTE_TO_CHAR = _alphabet()
CHAR_TO_BYTE = {char: byte for byte, char in enumerate(BYTE_TO_CHAR)}

_TO_LATIN = {ord(char): byte for char, byte in CHAR_TO_BYTE.items()}
_FROM_LATIN = dict(enumerate(BYTE_TO_CHAR))


def from_bytes(data: bytes) -> str:
    """Bytes -> their characters, one each."""
    return data.decode("latin-1").translate(_FROM_LATIN)


def to_bytes(token: str) -> bytes:
    """A token's text -> the bytes it stands for.

    A token with any character outside the alphabet (an added token may have one) stands for its own UTF-8.
    """
    if all(char in CHAR_TO_BYTE for char in token):
        return token.translate(_TO_LATIN).encode("latin-1")
    return token.encode("utf-8", errors="surrogatepass")
