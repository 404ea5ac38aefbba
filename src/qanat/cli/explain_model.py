"""The second half of `qanat explain`: the ids through the layers, to the logits and the choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from qanat.cli.forward import Watcher, all_logits
from qanat.cli.input import InputError
from qanat.cli.output import bytes_text
from qanat.cli.replies import LARGE
from qanat.cli.terminal import Status
from qanat.cli.tokenize import token_label

__all__ = ["explain_model"]


def explain_model(folder: Path, prompt: str, *, named: str, own_ids: bool, top: int) -> None:
    """Run the prompt through the model and print layers, logits and the greedy choice.

    Args:
        folder: the model.
        prompt: the templated text.
        named: how to call the model.
        own_ids: whether its ids differ from those that were shown before.
        top: how many candidates to list.
    """
    from qanat.backends import open_backend
    from qanat.checkpoint import load_checkpoint
    from qanat.cli.explain import title
    from qanat.engine.memory import check
    from qanat.model import TextModel
    from qanat.text import Tokenizer

    tokenizer = Tokenizer.from_folder(folder)
    ids = tokenizer.encode(prompt)
    checkpoint = load_checkpoint(folder)
    longest = checkpoint.config.text.max_position_embeddings
    if len(ids) > longest:
        raise InputError(
            f"the prompt has {len(ids)} tokens, and {named} reads at most {longest}: shorten the text"
        )
    check(checkpoint.config.text, "f32", len(ids))
    title(
        9, "Layers", f"model {named}: the numbers that the last of {len(ids)} tokens carries, layer by layer"
    )
    if own_ids:
        start = " ".join(map(str, ids[:24])) + (" ..." if len(ids) > 24 else "")
        print(f"  (it has a vocabulary of its own, so its ids differ: {start})")
    status = Status(worth_a_line=checkpoint.total_bytes > LARGE)
    try:
        status.show(f"loading the weights, {bytes_text(checkpoint.total_bytes)}")
        watcher = Watcher(open_backend("auto", weights="f32"))
        model: Any = TextModel(checkpoint.config.text, checkpoint.tensors, watcher)
        status.show(f"reading the prompt ({len(ids)} tokens)")
        logits = all_logits(model, ids, last_only=True)[-1, : len(tokenizer)]
    finally:
        status.clear()
    _layers(watcher, checkpoint.config.text.layer_types)
    _choice(logits, tokenizer, top, title)


def _layers(watcher: Watcher, kinds: tuple[str, ...]) -> None:
    names = {"linear_attention": "Gated DeltaNet", "full_attention": "gated attention"}
    first, rest = watcher.readings[0], watcher.readings[1:]
    print(f"  {'embedding':<28}rms {first.norm:8.3f}")
    for number, kind in enumerate(kinds):
        mixer, mlp = rest[2 * number], rest[2 * number + 1]
        print(
            f"  {f'layer {number}, {names.get(kind, kind)}':<28}rms {mlp.norm:8.3f}   "
            f"mixer changed it by {mixer.change:6.1%}, MLP by {mlp.change:6.1%}"
        )


def _choice(logits: np.ndarray[Any, Any], tokenizer: Any, top: int, title: Any) -> None:
    wide = logits.astype(np.float64)
    shifted = np.exp(wide - wide.max())
    probability = shifted / shifted.sum()
    order = np.argsort(-wide, kind="stable")[:top]
    title(10, "Logits", f"one number for each of {len(logits)} tokens; the {len(order)} largest")
    for token in order:
        label = token_label(tokenizer, int(token))
        print(f"  {int(token):>7}  {label:<20} logit {wide[token]:8.3f}   {probability[token]:6.1%}")
    title(
        11,
        "Generation",
        "greedy takes the first; sampling draws by probability. Then it all repeats with one token more",
    )
    print(f"  next token: {int(order[0])} {token_label(tokenizer, int(order[0]))}")
