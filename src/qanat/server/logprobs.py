"""Log probabilities in the two shapes that OpenAI's clients read."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

from qanat.engine.reply import Alternative, TokenLogprob

__all__ = ["TextLogprobs", "chat_logprobs"]

LEAST = -9999.0
"""Stands for the logarithm of a probability that rounds to 0, which JSON cannot express."""


def chat_logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    """`logprobs` of a chat choice: an entry for every generated token, thoughts and end token included.

    `bytes` are the token's raw bytes, which may be part of a character only.
    """
    return {
        "content": [
            {**_entry(token), "top_logprobs": [_entry(other) for other in token.top]} for token in tokens
        ]
    }


def _entry(token: Alternative) -> dict[str, Any]:
    return {"token": token.token, "logprob": _finite(token), "bytes": list(token.bytes)}


def _finite(token: Alternative) -> float:
    return max(token.logprob, LEAST)


class TextLogprobs:
    """`logprobs` of a text completion, piece by piece: where a token begins depends on those before it.

    Args:
        offset: characters before the first token: an echoed prompt, if its tokens are not added.
    """

    def __init__(self, offset: int = 0) -> None:
        self._offset = offset
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, tokens: Sequence[TokenLogprob | bytes]) -> dict[str, Any]:
        """The next tokens. One that is no whole text is written as its bytes, `bytes:\\xe2\\x80`.

        A token given as mere bytes is the first of a prompt: nothing comes before it to tell its own.
        """
        listed: dict[str, list[Any]] = {
            name: [] for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")
        }
        for token in tokens:
            if isinstance(token, bytes):
                data, logprob, top = token, None, None
            else:
                data, logprob, top = token.bytes, _finite(token), _alternatives(token)
            listed["tokens"].append(_spelled(data))
            listed["token_logprobs"].append(logprob)
            listed["top_logprobs"].append(top)
            listed["text_offset"].append(self._offset)
            self._offset += len(self._decoder.decode(data))
        return listed


def _alternatives(token: TokenLogprob) -> dict[str, float]:
    return {_spelled(other.bytes): _finite(other) for other in token.top}


def _spelled(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
