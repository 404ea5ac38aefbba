"""Every intermediate of the pipeline for one text, for `qanat explain` (docs/frontend.md, 1 to 6)."""

from __future__ import annotations

from dataclasses import dataclass

from qanat.text.added_tokens import AddedToken

__all__ = ["MergeStage", "PieceStage", "Stages", "StretchStage"]


@dataclass(frozen=True, slots=True)
class MergeStage:
    """One merge: its rank, what it joined, and all tokens of the piece after it, in byte-level letters."""

    rank: int
    left: str
    right: str
    result: str
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PieceStage:
    """One piece: its text, its bytes in byte-level letters, the merges in the order applied, the tokens."""

    text: str
    byte_level: str
    merges: tuple[MergeStage, ...]
    tokens: tuple[str, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StretchStage:
    """A stretch of the input, `text[start:end]`: an added token, or plain text that went on.

    `normalized` is the stretch in NFC. Where an added token is sought in normalised text, a stretch of the
    input yields several of these with the same `start` and `end`, each with its own part of `normalized`.
    """

    text: str
    start: int
    end: int
    normalized: str
    added_token: AddedToken | None
    pieces: tuple[PieceStage, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids this stretch became."""
        if self.added_token is not None:
            return (self.added_token.id,)
        return tuple(token for piece in self.pieces for token in piece.ids)


@dataclass(frozen=True, slots=True)
class Stages:
    """The whole of it; `ids` equals `Tokenizer.encode(text)`."""

    text: str
    stretches: tuple[StretchStage, ...]

    @property
    def ids(self) -> list[int]:
        """All ids, in order."""
        return [token for stretch in self.stretches for token in stretch.ids]
