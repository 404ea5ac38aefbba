"""Mean cross entropy of what the assistant writes in held-out conversations, through qanat alone.

    python -m tools.pocket.held_out_loss --model pocket --backend cpu --weights int8

One number that every way of storing the weights can be held against: the same conversations for the same
count and seed, teacher-forced, every learnt token weighing the same.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import numpy as np

from qanat import load_checkpoint
from qanat.backends import open_backend
from qanat.cli.forward import all_logits
from qanat.model import TextModel

from . import tokenizer
from .corpus import Fragments, Maker, conversation
from .data import encode

COUNT, SEED = 100, 5


def held_out_loss(
    model: str | Path,
    count: int = COUNT,
    seed: int = SEED,
    *,
    backend: str = "reference",
    weights: str = "auto",
) -> float:
    """Nats per learnt token over `count` conversations that training never makes.

    Args:
        model: a checkpoint of the miniature: a folder, or "pocket".
        count: how many conversations.
        seed: of the conversations.
        backend, weights: how qanat computes, as in `qanat.backends.open_backend`.
    """
    checkpoint = load_checkpoint(model)
    text = TextModel(checkpoint.config.text, checkpoint.tensors, open_backend(backend, weights=weights))
    vocabulary = tokenizer.load(checkpoint.path)
    maker = Maker(random.Random(seed), Fragments.of(vocabulary), held_out=True)
    total, learnt = 0.0, 0
    for ids, mask in encode(vocabulary, [conversation(maker) for _ in range(count)]):
        places = np.flatnonzero(mask[1:])
        logits = all_logits(text, ids[:-1])[places].astype(np.float64)
        top = logits.max(axis=1, keepdims=True)
        norms = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
        total += float((norms - logits[np.arange(len(places)), np.asarray(ids)[places + 1]]).sum())
        learnt += len(places)
    return total / learnt


def main() -> None:
    """Print the loss."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="pocket", help="a folder, or pocket")
    parser.add_argument("--count", type=int, default=COUNT, help="conversations")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--backend", default="reference")
    parser.add_argument("--weights", default="auto")
    args = parser.parse_args()
    loss = held_out_loss(args.model, args.count, args.seed, backend=args.backend, weights=args.weights)
    print(f"{loss:.6f} nats per learnt token, {args.count} held-out conversations")


if __name__ == "__main__":
    main()
