"""qanat as a side of `compare.py`: steps of the bare model on the CPU backend, a start through `LLM`."""

from __future__ import annotations

import sys
from typing import Any

from peers.side import serve


class Qanat:
    """MODEL (a folder or name), "int8" or "bf16", threads. Imports inside: a start counts them."""

    def __init__(self, model: str, weights: str, threads: int) -> None:
        self.path, self.weights, self.threads = model, weights, threads

    def load(self) -> dict[str, Any]:
        from qanat import __version__
        from qanat.backends import storage
        from qanat.bench.steps import open_model
        from qanat.checkpoint import load_checkpoint

        checkpoint = load_checkpoint(self.path)
        self.model = open_model(checkpoint, self.weights, self.threads)
        numbers = checkpoint.config.text.num_parameters
        return {"bytes": storage("cpu", self.weights).weight * numbers, "version": __version__}

    def first(self) -> None:
        from qanat import LLM, SamplingParams

        llm = LLM(self.path, backend="cpu", weights=self.weights, threads=self.threads, max_batch=1)
        llm.generate([1] * 16, SamplingParams(temperature=0, max_tokens=1, ignore_eos=True))

    def prepare(self, count: int, context: int, room: int) -> None:
        from qanat.bench.steps import Sequences

        self.sequences = Sequences(self.model, count, context, room)

    def read(self, tokens: int) -> None:
        from qanat.engine.memory import STEP_TOKENS

        self.sequences.read(tokens, STEP_TOKENS)

    def decode(self, steps: int) -> None:
        self.sequences.read(steps, 1)


if __name__ == "__main__":
    serve(Qanat(sys.argv[1], sys.argv[2], int(sys.argv[3])))
