"""Parses tokenizer.json and tokenizer_config.json, and refuses what this tokenizer would not do exactly.

The format describes a pipeline of interchangeable parts; the Qwen family uses one of each (docs/frontend.md,
section 1). Every other part, or setting of a part, is refused by name: ids that are nearly right are wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qanat.errors import TokenizerError
from qanat.text.added_tokens import AddedToken
from qanat.text.base_vocabulary import BaseVocabulary
from qanat.text.bpe import Merges, MergeTables
from qanat.text.bytelevel import BYTE_TO_CHAR

__all__ = ["TokenizerFiles", "parse_tokenizer_files"]

# The roles of tokenizer_config.json that a chat template sees as variables.
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

LARGEST = 2**31  # ids lie below
FLAGS = ("special", "lstrip", "rstrip", "single_word", "normalized")


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """What the two files say, checked."""

    vocab: BaseVocabulary
    merges: Merges
    added_tokens: tuple[AddedToken, ...]  # by id
    pattern: str  # how text is split
    nfc: bool  # whether text is normalised
    special_tokens: dict[str, str] = field(default_factory=dict)  # role -> token: eos_token, image_token, ...


def parse_tokenizer_files(folder: Path, tokenizer: bytes, config_text: bytes | None) -> TokenizerFiles:
    """Check the contents of tokenizer.json and tokenizer_config.json (None: there is none).

    `folder` is for messages. Errors: TokenizerError.
    """
    path, config_path = folder / "tokenizer.json", folder / "tokenizer_config.json"
    data = _json_object(tokenizer, path)
    config = {} if config_text is None else _json_object(config_text, config_path)
    _check_config(config, config_path)
    reader = _Reader(path)
    pattern, nfc = reader.pipeline(data)
    vocab = reader.vocabulary(data)
    tables = MergeTables.of(reader.merges(data["model"], vocab))
    added = reader.added_tokens(data, vocab)
    _add_from_config(config, vocab, added, config_path)
    return TokenizerFiles(
        vocab=BaseVocabulary.of(vocab),
        merges=Merges([vocab[char] for char in BYTE_TO_CHAR], tables),
        added_tokens=tuple(sorted(added.values(), key=lambda token: token.id)),
        pattern=pattern,
        nfc=nfc,
        special_tokens=_special_tokens(config, config_path),
    )


def _json_object(text: bytes, path: Path) -> dict[str, Any]:
    """The object that a file holds."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path}: damaged, not JSON ({error}); download it again") from None
    if not isinstance(data, dict):
        raise TokenizerError(f"{path}: must hold a JSON object, not a {type(data).__name__}")
    return data


class _Reader:
    """The checks of tokenizer.json, with the file's name at hand for messages."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def damaged(self, what: str) -> TokenizerError:
        return TokenizerError(f"{self.path}: damaged: {what}; download the file again")

    def unsupported(self, what: str) -> TokenizerError:
        return TokenizerError(f"{self.path}: {what} is not supported; use a tokenizer of Qwen2 to Qwen3.8")

    def part(self, owner: dict[str, Any], name: str) -> dict[str, Any] | None:
        value = owner.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.damaged(f"{name} must be an object or null")
        return value

    def expect(self, where: str, part: dict[str, Any], allowed: dict[str, tuple[Any, ...]]) -> None:
        """Refuse any setting of a part that is not listed, and any value but those listed."""
        for key, value in part.items():
            if key == "type":
                continue
            if key not in allowed:
                raise self.unsupported(f"{where}.{key}")
            if not any(value is choice or (value == choice and type(value) is type(choice))
                       for choice in allowed[key]):  # fmt: skip
                raise self.unsupported(f"{where}.{key} = {json.dumps(value)[:80]}")

    def pipeline(self, data: dict[str, Any]) -> tuple[str, bool]:
        """Check every part but the model; the splitting pattern, and whether text is normalised."""
        known = ("version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                 "post_processor", "decoder", "model")  # fmt: skip
        for key in data:
            if key not in known:
                raise self.unsupported(key)
        for key in ("truncation", "padding"):
            if data.get(key) is not None:
                raise self.unsupported(f"{key} (a tokenizer that shortens or pads what it is given)")
        normalizer = self.part(data, "normalizer")
        if normalizer is not None and normalizer.get("type") != "NFC":
            raise self.unsupported(f"normalizer {normalizer.get('type')!r}")
        if normalizer is not None:
            self.expect("normalizer", normalizer, {})
        self._bytelevel("post_processor", self.part(data, "post_processor"), needed=False)
        self._bytelevel("decoder", self.part(data, "decoder"), needed=True)
        return self._pattern(self.part(data, "pre_tokenizer")), normalizer is not None

    def _bytelevel(self, where: str, part: dict[str, Any] | None, *, needed: bool) -> None:
        if part is None and not needed:
            return
        if part is None or part.get("type") != "ByteLevel":
            raise self.unsupported(f"{where} {None if part is None else part.get('type')!r}")
        # Of these settings only trim_offsets touches what a post-processor does, none what a decoder does.
        trim = (False,) if where == "post_processor" else (False, True)
        either = (False, True)
        self.expect(where, part, {"add_prefix_space": either, "trim_offsets": trim, "use_regex": either})

    def _pattern(self, part: dict[str, Any] | None) -> str:
        if part is None or part.get("type") != "Sequence":
            raise self.unsupported(f"pre_tokenizer {None if part is None else part.get('type')!r}")
        self.expect("pre_tokenizer", {k: v for k, v in part.items() if k != "pretokenizers"}, {})
        steps = part.get("pretokenizers")
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise self.damaged("pre_tokenizer.pretokenizers must be a list of objects")
        kinds = [step.get("type") for step in steps]
        if kinds != ["Split", "ByteLevel"]:
            raise self.unsupported(f"pre_tokenizer {' + '.join(map(str, kinds)) or 'of no steps'}")
        split, bytelevel = steps
        pattern = split.get("pattern")
        if not isinstance(pattern, dict) or not isinstance(pattern.get("Regex"), str) or len(pattern) != 1:
            raise self.unsupported(f"pre_tokenizer pattern {json.dumps(pattern)[:80]}")
        rest = {key: value for key, value in split.items() if key != "pattern"}
        self.expect("pre_tokenizer.Split", rest, {"behavior": ("Isolated",), "invert": (False,)})
        self.expect(
            "pre_tokenizer.ByteLevel",
            bytelevel,
            {"add_prefix_space": (False,), "trim_offsets": (False, True), "use_regex": (False,)},
        )
        if "use_regex" not in bytelevel or "add_prefix_space" not in bytelevel:
            raise self.unsupported("pre_tokenizer.ByteLevel without use_regex and add_prefix_space = false")
        return str(pattern["Regex"])

    def vocabulary(self, data: dict[str, Any]) -> dict[str, int]:
        """Check the model's settings; its vocabulary."""
        model = self.part(data, "model")
        if model is None:
            raise self.damaged("model is missing")
        kind = model.get("type", "BPE")
        if kind != "BPE":
            raise self.unsupported(f"model {kind!r}")
        settings = {key: value for key, value in model.items() if key not in ("vocab", "merges")}
        self.expect(
            "model",
            settings,
            {
                "dropout": (None, 0.0),
                "unk_token": (None,),
                "continuing_subword_prefix": (None, ""),
                "end_of_word_suffix": (None, ""),
                "fuse_unk": (False, True),  # no effect without unk_token
                "byte_fallback": (False,),
                "ignore_merges": (False,),
            },
        )
        vocab = model.get("vocab")
        if not isinstance(vocab, dict):
            raise self.damaged("model.vocab must be an object")
        if not all(type(token) is int and 0 <= token < LARGEST for token in vocab.values()):
            raise self.damaged("model.vocab must map to non-negative whole numbers below 2**31")
        if len(set(vocab.values())) != len(vocab):
            raise self.damaged("model.vocab gives one id to two tokens")
        missing = [f"{byte:02X}" for byte, char in enumerate(BYTE_TO_CHAR) if char not in vocab]
        if missing:
            raise self.damaged(f"model.vocab lacks {len(missing)} of the 256 bytes, first {missing[0]}")
        return vocab

    def merges(self, model: dict[str, Any], vocab: dict[str, int]) -> Iterator[tuple[int, int, int]]:
        """The merges as ids; the file may hold them as "a b" or as ["a", "b"]."""
        listed = model.get("merges")
        if not isinstance(listed, list):
            raise self.damaged("model.merges must be a list")
        for rank, entry in enumerate(listed):
            try:
                left, right = entry.split(" ") if type(entry) is str else entry
                merge = vocab[left], vocab[right], vocab[left + right]
            except (KeyError, TypeError, ValueError):
                raise self.damaged(
                    f"model.merges[{rank}] = {json.dumps(entry, ensure_ascii=False)[:80]} is not a pair of "
                    "tokens that joined are a token"
                ) from None
            yield merge

    def added_tokens(self, data: dict[str, Any], vocab: dict[str, int]) -> dict[str, AddedToken]:
        """The added tokens of tokenizer.json, by content."""
        listed = data.get("added_tokens")
        if listed is None:
            listed = []
        if not isinstance(listed, list):
            raise self.damaged("added_tokens must be a list")
        found: dict[str, AddedToken] = {}
        texts = {token: text for text, token in vocab.items()} if listed else {}
        for place, entry in enumerate(listed):
            where = f"added_tokens[{place}]"
            token = _added_token(
                entry, entry.get("id") if isinstance(entry, dict) else None, where, self.path
            )
            if not token.content:
                continue
            if token.content in found:
                raise self.damaged(f"{where} repeats {token.content!r}")
            expected = texts.get(token.id, token.content)
            if expected != token.content or vocab.get(token.content, token.id) != token.id:
                raise self.damaged(f"{where} ({token.content!r}, id {token.id}) contradicts model.vocab")
            texts[token.id] = token.content
            found[token.content] = token
        return found


def _added_token(entry: Any, token_id: Any, where: str, path: Path) -> AddedToken:
    """One entry of added_tokens or added_tokens_decoder."""
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
        raise TokenizerError(f"{path}: damaged: {where} must be an object with a content string")
    if type(token_id) is not int or token_id < 0:
        raise TokenizerError(f"{path}: damaged: {where} needs an id, a non-negative whole number")
    flags = {flag: entry.get(flag, False) for flag in FLAGS}
    flags["normalized"] = entry.get("normalized", not flags["special"])
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise TokenizerError(f"{path}: damaged: {where}.{flag} must be true or false")
    return AddedToken(token_id, entry["content"], **flags)


def _add_from_config(
    config: dict[str, Any], vocab: dict[str, int], added: dict[str, AddedToken], path: Path
) -> None:
    """Add the tokens that only `added_tokens_decoder` of tokenizer_config.json lists (Qwen3.5: seven)."""
    decoder = config.get("added_tokens_decoder")
    if decoder is None:
        return
    if not isinstance(decoder, dict):
        raise TokenizerError(f"{path}: damaged: added_tokens_decoder must be an object")
    taken = {token.id: token.content for token in added.values()}
    base = set(vocab.values())
    for key, entry in decoder.items():
        where = f"added_tokens_decoder[{key[:40]!r}]"
        token = _added_token(entry, int(key) if key.isdecimal() and len(key) <= 18 else None, where, path)
        if not token.content:
            continue
        clash = taken.get(token.id, token.content) != token.content
        known = added[token.content].id if token.content in added else vocab.get(token.content)
        if clash or known not in (None, token.id) or (known is None and token.id in base):
            raise TokenizerError(
                f"{path}: {where} ({token.content!r}) contradicts tokenizer.json; the two files must be of "
                "one model"
            )
        taken[token.id] = token.content
        added[token.content] = token


def _special_tokens(config: dict[str, Any], path: Path) -> dict[str, str]:
    """The named special tokens as a chat template sees them: eos_token, image_token, ..."""
    named = {role: config.get(role) for role in ROLES}
    named.update((key, value) for key, value in config.items() if key.endswith("_token") and _names(value))
    for group in ("extra_special_tokens", "model_specific_special_tokens"):
        extra = config.get(group)
        if isinstance(extra, dict):
            named.update(extra)
    result: dict[str, str] = {}
    for role, value in named.items():
        if value is None:
            continue
        if not _names(value):
            raise TokenizerError(f"{path}: damaged: {role} must be a string")
        result[role] = value["content"] if isinstance(value, dict) else value
    return result


def _names(value: Any) -> bool:
    """Whether a setting names a token: by its text, or by an object that holds it."""
    return isinstance(value.get("content") if isinstance(value, dict) else value, str)


def _check_config(config: dict[str, Any], path: Path) -> None:
    """Refuse settings that change the ids of a plain text."""
    for key in ("add_bos_token", "add_eos_token", "add_prefix_space", "split_special_tokens"):
        if config.get(key):
            raise TokenizerError(
                f"{path}: {key} = {json.dumps(config[key])[:40]} is not supported; Qwen's files say false"
            )
