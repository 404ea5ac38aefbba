"""Each stage of the path, run for real and held against what Hugging Face's libraries gave (tests/golden).

A stage is a function that returns one `Comparison` a case. `tools/stages.py` prints the tallies, and the
tests beside this file keep them at zero failures.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from qanat.checkpoint.safetensors import SafetensorsFile
from qanat.engine import LLM, SamplingParams
from qanat.errors import SafetensorsError
from qanat.text import ChatTemplate, Tokenizer
from qanat.text.explain import StretchStage
from qanat.text.vocabulary import real_tokenizer_folder
from tests.assets import GOLDEN, POCKET
from tests.model import oracle, runs, tiny
from tests.stages.inputs import TEXTS, safetensors_files
from tests.text.template_cases import cases
from tests.text.template_reference import SPECIAL_TOKENS
from tests.text.test_template import agrees

__all__ = ["STAGES", "Comparison"]

REPLIES, REPLY_TOKENS = 16, 64
"""How many recorded chats the last stage continues, and how far; tests/test_greedy_text.py does all."""
CLOSE = 2e-4
"""Where transformers' two best logits of a reply come nearer than this, its rounding may decide (float32)."""


class Comparison(NamedTuple):
    """One case: what it was, whether we gave the same, and what differed."""

    case: str
    equal: bool
    difference: str = ""


def compare(case: str, expected: Any, ours: Any) -> Comparison:
    if expected == ours:
        return Comparison(case, True)
    return Comparison(case, False, f"expected {ascii(expected)[:200]}, got {ascii(ours)[:200]}")


@cache
def golden(name: str) -> Any:
    return json.loads(gzip.decompress((GOLDEN / f"{name}.json.gz").read_bytes()))


@cache
def tokenizer() -> Tokenizer:
    """The real vocabulary."""
    return Tokenizer.from_folder(real_tokenizer_folder())


def recorded_texts() -> list[dict[str, Any]]:
    recorded: list[dict[str, Any]] = golden("stages")["texts"]
    if tuple(case["text"] for case in recorded) != TEXTS:
        raise LookupError("tests/golden/stages.json.gz was recorded from other texts: run `make goldens`")
    return recorded


def plain_stretches(prompt: str) -> list[StretchStage]:
    """The parts of a prompt between control tokens, on their way."""
    return [s for s in tokenizer().explain(prompt).stretches if s.added_token is None]


def templated_text() -> Iterator[Comparison]:
    """User turns and every recorded conversation through the template of the small models."""
    template = ChatTemplate.from_folder(POCKET)
    for case in recorded_texts():
        messages = [{"role": "user", "content": case["text"]}]
        yield compare(case["text"], case["prompt"], template.render(messages, add_generation_prompt=True))
    recorded = golden("template")
    template = ChatTemplate(template.source, SPECIAL_TOKENS)
    same_python = recorded["python"] == list(sys.version_info[:2])
    for conversation in cases():
        kind, text = recorded["outcomes"][recorded["results"]["small"][conversation.name]]
        fine = agrees(template, conversation, kind, text, same_python=same_python)
        yield Comparison(conversation.name, fine, f"expected {kind} {ascii(text)[:200]}")


def special_tokens() -> Iterator[Comparison]:
    for case in recorded_texts():
        stretches = tokenizer().explain(case["prompt"]).stretches
        found = [[s.added_token.id, s.start, s.end] for s in stretches if s.added_token is not None]
        yield compare(case["text"], case["special"], found)


def normalisation() -> Iterator[Comparison]:
    for case in recorded_texts():
        expected = [stretch["normalised"] for stretch in case["stretches"]]
        yield compare(case["text"], expected, [s.normalized for s in plain_stretches(case["prompt"])])


def split_pretokenization() -> Iterator[Comparison]:
    for case in recorded_texts():
        expected = [stretch["pieces"] for stretch in case["stretches"]]
        ours = [[piece.text for piece in s.pieces] for s in plain_stretches(case["prompt"])]
        yield compare(case["text"], expected, ours)


def byte_level() -> Iterator[Comparison]:
    for case in recorded_texts():
        expected = [stretch["letters"] for stretch in case["stretches"]]
        ours = [[piece.byte_level for piece in s.pieces] for s in plain_stretches(case["prompt"])]
        yield compare(case["text"], expected, ours)


def bpe() -> Iterator[Comparison]:
    """The tokens of every piece; then whole texts, the random ones of the tokenizer's goldens too."""
    for case in recorded_texts():
        expected = [stretch["ids"] for stretch in case["stretches"]]
        ours = [[list(piece.ids) for piece in s.pieces] for s in plain_stretches(case["prompt"])]
        yield compare(case["text"], expected, ours)
        yield compare(f"whole: {case['text']}", case["ids"], tokenizer().encode(case["prompt"]))
    for case in golden("tokenizer")["texts"]:
        yield compare(case["text"], case["ids"], tokenizer().encode(case["text"]))


def decoding() -> Iterator[Comparison]:
    """Ids back to text, at once and token by token."""
    recorded = golden("tokenizer")
    for case in [*recorded_texts(), *recorded["texts"], *recorded["decodes"]]:
        ids, name = case["ids"], f"ids {case['ids'][:6]}"
        yield compare(name, case["decoded"], tokenizer().decode(ids))
        stream = tokenizer().stream()
        pieces = [*(stream.step(token) for token in ids), stream.flush()]
        yield compare(f"{name}, streamed", case["decoded"], "".join(pieces))


def safetensors() -> Iterator[Comparison]:
    """Good and broken files: the same tensors, or refused by both."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.safetensors"
        for (name, data), expected in zip(safetensors_files(), golden("stages")["safetensors"], strict=True):
            file.unlink(missing_ok=True)
            file.write_bytes(data)
            try:
                opened = SafetensorsFile(file)
                ours: Any = {
                    tensor: [entry.dtype, list(entry.shape), opened.array(tensor).tobytes().hex()]
                    for tensor, entry in opened.entries.items()
                }
            except SafetensorsError:
                ours = None
            yield compare(name, expected, ours)


def logits() -> Iterator[Comparison]:
    """Float32 logits of random tiny models: error at most three times transformers' own, plus 1e-5."""
    for name in tiny.VARIANTS:
        tokens = tiny.token_stream(name, 69)
        truth = oracle.logits(tiny.config_dict(name), tiny.random_tensors(name), tokens)
        model = runs.build(tiny.config_dict(name), tiny.random_tensors(name))
        for length in (1, 5, 64, 65):
            case = f"prefill {length}"
            got = runs.logits_of(model, [tokens[:length]])
            yield _within(f"{name}, {case}", got, truth[:length], golden("model")[name][case])
        pieces = [tokens[:5], *(tokens[i : i + 1] for i in range(5, 69))]
        got = runs.logits_of(model, pieces)[5:]
        yield _within(f"{name}, decode", got, truth[5:69], golden("model")[name]["decode after 5"])


def _within(case: str, got: Any, truth: Any, recorded: dict[str, Any]) -> Comparison:
    bar = 3 * recorded["error"] + 1e-5
    error = float(np.abs(got - truth).max())
    last = np.frombuffer(bytes.fromhex(recorded["last"]), "<f4")
    apart = float(np.abs(got[-1] - last).max())
    fine = error <= bar and apart <= bar + recorded["error"]
    return Comparison(case, fine, f"error {error:.2e}, allowed {bar:.2e}; from transformers {apart:.2e}")


def generation() -> Iterator[Comparison]:
    """Greedy continuations of the built-in model, token for token, all in one batch."""
    recorded = golden("pocket")
    weights = hashlib.sha256((POCKET / "model.safetensors").read_bytes()).hexdigest()
    if recorded["weights"] != weights:
        yield Comparison("weights", False, "the replies were recorded with other weights: run `make goldens`")
        return
    chats = recorded["chats"][:REPLIES]
    llm = LLM(POCKET, weights="f32", max_batch=REPLIES)
    params = SamplingParams(temperature=0.0, max_tokens=REPLY_TOKENS, ignore_eos=True)
    replies = llm.generate([chat["prompt"] for chat in chats], params)
    for chat, reply in zip(chats, replies, strict=True):
        result = compare(chat["text"], chat["reply"][:REPLY_TOKENS], list(reply.token_ids))
        if not result.equal and chat["smallest margin"] < CLOSE:
            result = Comparison(chat["text"], True, f"parted at a tie of {chat['smallest margin']:.1e}")
        yield result


STAGES: dict[str, Callable[[], Iterator[Comparison]]] = {
    "Templated text": templated_text,
    "Special tokens": special_tokens,
    "Normalisation": normalisation,
    "Split pretokenization": split_pretokenization,
    "ByteLevel": byte_level,
    "BPE": bpe,
    "Decoding": decoding,
    "Safetensors": safetensors,
    "Logits": logits,
    "Generation": generation,
}
"""The path, in order. Special tokens to Decoding need the real vocabulary (extra `vocab`)."""
