"""Opens the tokenizer of a folder; of a large tokenizer.json the checked tables are kept on disk.

Parsing and checking 13 MB of JSON would be half a second of every start. The tables of one pair of files are
one file under `tokenizers/` in qanat's cache: a digest of all that follows, the length of a header, the
header (JSON), then the columns of `BaseVocabulary` and `MergeTables` as they lie in memory. Its name is a
digest of the two files' bytes, so no change of theirs goes unnoticed; what is damaged is made again.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from array import array
from collections.abc import Sequence
from dataclasses import astuple
from hashlib import blake2b
from pathlib import Path

from qanat.errors import TokenizerError
from qanat.paths import cache_root
from qanat.text.added_tokens import AddedToken
from qanat.text.base_vocabulary import BaseVocabulary
from qanat.text.bpe import Merges, MergeTables
from qanat.text.tokenizer_file import TokenizerFiles, parse_tokenizer_files

__all__ = ["open_tokenizer_files"]

FORMAT = 1  # raise the number when what is kept, or what is refused, changes
LARGE = 1_000_000  # bytes of tokenizer.json from which keeping pays
KEPT = 8
"""Files that survive, the most recently used ones; each has some 9 MB."""
DIGEST = 32  # bytes
HEADER = DIGEST + 8  # where it begins


def open_tokenizer_files(folder: Path) -> TokenizerFiles:
    """What tokenizer.json and tokenizer_config.json of a folder say; the latter may be missing.

    Raises:
        TokenizerError: a file is missing, damaged, or asks for what this tokenizer does not do.
    """
    path = folder / "tokenizer.json"
    tokenizer, config = _read(path), _read(folder / "tokenizer_config.json")
    if tokenizer is None:
        raise TokenizerError(f"{path}: no such file; a tokenizer needs it, get it from the model's hub page")
    if len(tokenizer) < LARGE:
        return parse_tokenizer_files(folder, tokenizer, config)
    kept = cache_root() / "tokenizers" / _key(tokenizer, config)
    files = _find(kept)
    if files is None:
        files = parse_tokenizer_files(folder, tokenizer, config)
        _keep(kept, files)
    return files


def _read(path: Path) -> bytes | None:
    """The bytes of a file, or None if there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():  # a cache that lost a file must not change ids in silence
            raise TokenizerError(f"{path}: a link to a file that is not there; download it again") from None
        return None
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read: {error.strerror or error}") from None


def _key(tokenizer: bytes, config: bytes | None) -> str:
    """The name of the tables of two files, as this machine writes numbers."""
    digest = blake2b(repr((FORMAT, sys.byteorder, len(tokenizer), config is None)).encode(), digest_size=16)
    digest.update(tokenizer)
    digest.update(config or b"")
    return digest.hexdigest()


def _find(file: Path) -> TokenizerFiles | None:
    """The tables as they were written, or None."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.utime(file)  # its age says when it was last used
    view = memoryview(data)
    if blake2b(view[DIGEST:], digest_size=DIGEST).digest() != data[:DIGEST]:
        return None
    place = HEADER + int.from_bytes(view[DIGEST:HEADER], sys.byteorder)
    header = json.loads(data[HEADER:place])
    columns = []
    for length in header["columns"]:
        columns.append(view[place : place + 4 * length].cast("i"))
        place += 4 * length
    ids, ends, *rules = columns
    return TokenizerFiles(
        vocab=BaseVocabulary(ids, ends, view[place:]),
        merges=Merges(header["byte_ids"], MergeTables(*rules)),
        added_tokens=tuple(AddedToken(*token) for token in header["added_tokens"]),
        pattern=header["pattern"],
        nfc=header["nfc"],
        special_tokens=header["special_tokens"],
    )


def _keep(file: Path, files: TokenizerFiles) -> None:
    """Write the tables; without room or rights nothing is kept, and nothing fails."""
    columns: list[Sequence[int]] = [files.vocab.ids, files.vocab.ends, *files.merges.tables]
    header = json.dumps(
        {
            "columns": [len(column) for column in columns],
            "byte_ids": files.merges.byte_ids,
            "added_tokens": [astuple(token) for token in files.added_tokens],
            "pattern": files.pattern,
            "nfc": files.nfc,
            "special_tokens": files.special_tokens,
        }
    ).encode()
    parts = [len(header).to_bytes(8, sys.byteorder), header]
    parts += [array("i", column).tobytes() for column in columns]
    content = b"".join([*parts, files.vocab.texts])
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=file.parent)
        try:
            with open(number, "wb") as scratch:  # noqa: PTH123 - a descriptor has no path
                scratch.write(blake2b(content, digest_size=DIGEST).digest() + content)
            Path(name).replace(file)
        finally:
            Path(name).unlink(missing_ok=True)
        others = sorted(file.parent.iterdir(), key=lambda other: -other.stat().st_mtime)
        for old in others[KEPT:]:
            old.unlink(missing_ok=True)
    except OSError:
        return
