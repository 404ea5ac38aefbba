"""Text -> token ids -> text, equal to Hugging Face's fast tokenizer id for id (docs/frontend.md, 1 to 7)."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

from qanat.errors import TokenizerError, TooManyTokensError
from qanat.text.added_tokens import AddedToken, AddedTokenFinder
from qanat.text.bpe import MergeStep
from qanat.text.bytelevel import from_bytes, to_bytes
from qanat.text.explain import MergeStage, PieceStage, Stages, StretchStage
from qanat.text.nfc import Alignment, normalize, normalize_aligned
from qanat.text.segments import Segment
from qanat.text.splitter import Splitter
from qanat.text.stream import StreamDecoder
from qanat.text.tokenizer_cache import open_tokenizer_files
from qanat.text.tokenizer_file import TokenizerFiles

__all__ = ["Tokenizer"]

# Pieces recur: words, indents, punctuation. The cache is emptied when full; long pieces hardly recur.
CACHED_PIECES = 1 << 16
CACHED_PIECE_LENGTH = 48
LONG_PIECE = 4096
"""Characters of a piece before it is asked whether it can still fit."""


class Tokenizer:
    """A byte-level BPE tokenizer of the Qwen family. Safe to use from several threads."""

    def __init__(self, files: TokenizerFiles) -> None:
        """From what the files say; usually `Tokenizer.from_folder`."""
        self._splitter = Splitter(files.pattern)
        self._merges = files.merges
        self._nfc = files.nfc
        self._added = files.added_tokens
        self._special_tokens_map = dict(files.special_tokens)
        self._base = files.vocab
        self._added_ids = {token.content: token.id for token in files.added_tokens}
        # Hugging Face decodes a token that is sought in normalised text to its normalised spelling, and then
        # knows it as special only if some special token is spelled so.
        self._added_texts = {
            token.id: self._normalize(token.content) if token.normalized else token.content
            for token in self._added
        }
        special = {token.content for token in self._added if token.special}
        self._special_ids = frozenset(token for token, text in self._added_texts.items() if text in special)
        self._bytes: dict[int, bytes] = {}
        self._pieces: dict[str, list[int]] = {}
        # Of equal spellings the special one counts (they come first in Hugging Face's list too).
        by_role = sorted(files.added_tokens, key=lambda token: not token.special)
        self._raw_finder = AddedTokenFinder(
            (token.content, token) for token in by_role if not token.normalized
        )
        normalized = [(self._normalize(token.content), token) for token in by_role if token.normalized]
        self._normalized_finder = AddedTokenFinder(normalized) if normalized else None

    @classmethod
    def from_folder(cls, path: str | Path) -> Tokenizer:
        """The tokenizer of a model folder (tokenizer.json, tokenizer_config.json). Errors: TokenizerError."""
        return cls(open_tokenizer_files(Path(path)))

    # Text to ids

    def encode(self, text: str, *, split_special_tokens: bool = False, most: int | None = None) -> list[int]:
        """The ids of `text`; nothing is added before or after.

        Args:
            split_special_tokens: special tokens in `text` are plain text (those that are added but not
                special, such as `<think>`, still count, as in Hugging Face).
            most: give up as soon as there are more ids: of a text that is far too long, most is not merged.

        Raises:
            TokenizerError: a lone surrogate.
            TooManyTokensError: more than `most` ids.
        """
        _check_text(text)
        limit = sys.maxsize if most is None else most
        ids: list[int] = []
        for token, start, end in self._raw_finder.split(text, skip_special=split_special_tokens):
            if token is not None:
                ids.append(token.id)
                continue
            normalized = self._normalize(text[start:end])
            if self._normalized_finder is None:
                self._encode_plain(normalized, ids, limit)
                continue
            for inner, first, last in self._normalized_finder.split(
                normalized, skip_special=split_special_tokens
            ):
                if inner is not None:
                    ids.append(inner.id)
                else:
                    self._encode_plain(normalized[first:last], ids, limit)
        return _checked(ids, limit)

    def encode_batch(self, texts: Iterable[str], *, split_special_tokens: bool = False) -> list[list[int]]:
        """`encode` of each text."""
        return [self.encode(text, split_special_tokens=split_special_tokens) for text in texts]

    def encode_prompt(self, segments: Sequence[Segment], *, most: int | None = None) -> list[int]:
        """The ids of a prompt in which a user's spellings of control tokens are plain text.

        Equal to transformers' `sanitize_control_tokens=True`, so segments are encoded one by one: text never
        joins across their border. All but a trusted first one are encoded as if a newline stood before them.
        `most` as in `encode`.
        """
        ids: list[int] = []
        newline = self.encode("\n")
        limit = sys.maxsize if most is None else most
        for place, segment in enumerate(segments):
            if not segment.text:
                continue
            encode = partial(
                self.encode if segment.trusted else self._encode_as_plain_text, most=limit + len(newline)
            )
            first = segment.trusted and place == 0
            try:
                part = [] if first else encode("\n" + segment.text)
                part = part[len(newline) :] if part[: len(newline)] == newline else encode(segment.text)
            except TooManyTokensError:
                raise _too_many(limit) from None  # the newline is not one of them
            if not segment.trusted and self._added_ids.get(segment.text) in part:
                raise TokenizerError(
                    f"the control token {segment.text!r} cannot be kept out of the prompt: its plain "
                    "spelling has the same id; remove it from the message"
                )
            ids += part
            _checked(ids, limit)
        return ids

    def encode_exactly(self, text: str) -> list[int]:
        """Ids that stand for exactly this text: no control tokens in it, and nothing normalised."""
        _check_text(text)
        ids: list[int] = []
        self._encode_plain(text, ids, sys.maxsize)
        return ids

    def encode_with_offsets(self, text: str) -> list[tuple[int, int, int]]:
        """(id, start, end) of each token, places counted in characters of `text`.

        As Hugging Face's fast offsets: tokens that share a character all point at it, and a character that
        NFC composed points at its base character alone.
        """
        _check_text(text)
        result: list[tuple[int, int, int]] = []
        for token, start, end in self._raw_finder.split(text):
            if token is not None:
                result.append((token.id, start, end))
                continue
            normalized, alignment = self._normalize_aligned(text[start:end])
            starts = [start + place for place in alignment.starts]
            ends = [start + place for place in alignment.ends]
            finder = self._normalized_finder or AddedTokenFinder(())
            for inner, first, last in finder.split(normalized):
                if inner is not None:
                    result.append((inner.id, starts[first], ends[last - 1]))
                    continue
                done = first
                for piece in self._splitter.split(normalized[first:last]):
                    # owner[b]: which character of `normalized` byte b of the piece belongs to
                    owner = [done + i for i, char in enumerate(piece) for _ in char.encode()]
                    byte = 0
                    for piece_id in self._piece_ids(piece):
                        size = len(self.token_bytes(piece_id))
                        result.append((piece_id, starts[owner[byte]], ends[owner[byte + size - 1]]))
                        byte += size
                    done += len(piece)
        return result

    # Ids to text

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """The text of some ids. Ids without a token give nothing; bytes that are not UTF-8 give U+FFFD."""
        skipped = self._special_ids if skip_special_tokens else frozenset()
        if not isinstance(ids, Iterable):
            raise TokenizerError(f"the ids to decode must be a list, not {type(ids).__name__}")
        numbers = (token if type(token) is int else _token_id(token) for token in ids)
        data = b"".join(self.token_bytes(token) for token in numbers if token not in skipped)
        return data.decode("utf-8", errors="replace")

    def stream(self, *, skip_special_tokens: bool = False) -> StreamDecoder:
        """A decoder that takes the ids one by one."""
        skipped = self._special_ids if skip_special_tokens else frozenset()
        return StreamDecoder(lambda token: b"" if token in skipped else self.token_bytes(token))

    def token_bytes(self, token: int) -> bytes:
        """The bytes an id stands for; empty for an id without a token. TokenizerError if it is no id."""
        if type(token) is not int:
            token = _token_id(token)
        data = self._bytes.get(token)
        if data is None:
            if token < 0:
                raise TokenizerError(f"{token} is not a token id: ids count from 0")
            text = self._text(token)
            data = to_bytes(text)
            if text:
                self._bytes[token] = data
        return data

    def all_bytes(self) -> list[bytes]:
        """`token_bytes` of each id up to the largest, none of them kept."""
        return [to_bytes(self._text(token)) for token in range(self.largest_id + 1)]

    def token_text(self, token: int) -> str:
        """The text of one id; U+FFFD where its bytes are not UTF-8."""
        return self.token_bytes(token).decode("utf-8", errors="replace")

    # The vocabulary

    def __len__(self) -> int:
        """How many ids have a token (a model may have more rows)."""
        return len(self._base) + sum(self._base.text(token.id) is None for token in self._added)

    @cached_property
    def vocab(self) -> Mapping[str, int]:
        """Token -> id, base vocabulary (in byte-level letters) and added tokens; read-only."""
        return MappingProxyType(self._base.by_text() | self._added_ids)

    @property
    def largest_id(self) -> int:
        """The largest id that has a token."""
        return max([self._base.ids[-1], *self._added_texts])

    @property
    def added_tokens(self) -> tuple[AddedToken, ...]:
        """The added tokens, by id."""
        return self._added

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that `skip_special_tokens` leaves out."""
        return self._special_ids

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """Role -> token, as chat templates see them: eos_token, pad_token, image_token, ..."""
        return dict(self._special_tokens_map)

    def token_id(self, content: str) -> int | None:
        """The id of a token, given as `vocab` writes it; None if there is none."""
        found = self._added_ids.get(content)
        return self.vocab.get(content) if found is None else found

    @property
    def eos_token_id(self) -> int | None:
        """The id that ends a turn (Qwen3.5: `<|im_end|>`)."""
        return self._role_id("eos_token")

    @property
    def pad_token_id(self) -> int | None:
        """The id of the padding token (Qwen3.5: `<|endoftext|>`)."""
        return self._role_id("pad_token")

    # The pipeline laid open

    def longest_piece(self, text: str) -> int:
        """Characters of the longest piece that the text is cut into: `explain` takes the square of it."""
        return max(map(len, self._splitter.split(self._normalize(text))), default=0)

    def explain(self, text: str) -> Stages:
        """Every intermediate result of `encode(text)`."""
        _check_text(text)
        stretches: list[StretchStage] = []
        for token, start, end in self._raw_finder.split(text):
            raw = text[start:end]
            if token is not None:
                stretches.append(StretchStage(raw, start, end, raw, token, ()))
                continue
            normalized = self._normalize(raw)
            finder = self._normalized_finder or AddedTokenFinder(())
            for inner, first, last in finder.split(normalized):
                part = normalized[first:last]
                pieces = () if inner else tuple(map(self._explain_piece, self._splitter.split(part)))
                stretches.append(StretchStage(raw, start, end, part, inner, pieces))
        return Stages(text, tuple(stretches))

    def _explain_piece(self, piece: str) -> PieceStage:
        text = self._text
        data = piece.encode("utf-8")
        steps: list[MergeStep] = []
        ids = self._merges.encode(data, steps)
        merges = tuple(
            MergeStage(
                rank=step.rank,
                left=text(step.merge.left),
                right=text(step.merge.right),
                result=text(step.merge.result),
                tokens=tuple(map(text, step.tokens)),
            )
            for step in steps
        )
        return PieceStage(piece, from_bytes(data), merges, tuple(map(text, ids)), tuple(ids))

    # Parts

    def _text(self, token: int) -> str:
        """An id's text as `vocab` writes it; empty for an id without a token."""
        return self._added_texts.get(token) or self._base.text(token) or ""

    def _normalize(self, text: str) -> str:
        return normalize(text) if self._nfc else text

    def _normalize_aligned(self, text: str) -> tuple[str, Alignment]:
        if self._nfc:
            return normalize_aligned(text)
        return text, Alignment(list(range(len(text))), list(range(1, len(text) + 1)))

    def _encode_plain(self, normalized: str, ids: list[int], limit: int) -> None:
        for piece in self._splitter.split(normalized):
            if len(piece) > LONG_PIECE and len(piece) > (limit - len(ids)) * self._longest:
                raise _too_many(limit)
            ids += self._piece_ids(piece)
            if len(ids) > limit:
                raise _too_many(limit)

    def _encode_as_plain_text(self, text: str, *, most: int) -> list[int]:
        """Encode as if there were no added tokens at all."""
        _check_text(text)
        ids: list[int] = []
        self._encode_plain(self._normalize(text), ids, most)
        return ids

    @cached_property
    def _longest(self) -> int:
        """No token of the base vocabulary has more characters."""
        return max(stop - start for start, stop in pairwise([0, *self._base.ends]))

    def _piece_ids(self, piece: str) -> list[int]:
        ids = self._pieces.get(piece)
        if ids is None:
            ids = self._merges.encode(piece.encode("utf-8"))
            if len(piece) <= CACHED_PIECE_LENGTH:
                if len(self._pieces) >= CACHED_PIECES:
                    self._pieces = {}
                self._pieces[piece] = ids
        return ids

    def _role_id(self, role: str) -> int | None:
        content = self._special_tokens_map.get(role)
        return None if content is None else self.token_id(content)


def _token_id(token: object) -> int:
    """A whole number of another type (numpy's) as a plain one; TokenizerError for anything else."""
    try:
        return operator.index(token)  # type: ignore[arg-type]
    except TypeError:
        raise TokenizerError(f"a token id is a whole number, not a {type(token).__name__}") from None


def _checked(ids: list[int], most: int) -> list[int]:
    if len(ids) > most:
        raise _too_many(most)
    return ids


def _too_many(most: int) -> TooManyTokensError:
    return TooManyTokensError(f"the text has more than {most} tokens")


def _check_text(text: str) -> None:
    """TokenizerError unless `text` is a string that UTF-8 can express."""
    if not isinstance(text, str):
        raise TokenizerError(f"the text to encode must be a string, not {type(text).__name__}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TokenizerError(
            f"the text holds a lone surrogate, U+{ord(text[error.start]):04X}, at character {error.start}: "
            "half of a UTF-16 pair is no character; remove it, or replace it by U+FFFD"
        ) from None
