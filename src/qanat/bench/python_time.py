"""What Python costs in a step: the time of a whole step whose kernels have next to nothing to do.

A model is made with the same layers, one after the other, as the one in question, but of tiny sizes, and it
answers through the same scheduler, batch, operations, sampler and decoder. A step of it calls as many kernels
as a step of the large one and does everything that Python does there; what the kernels themselves take (some
microseconds each) is counted as Python's, so the figure is an upper bound. What grows with the vocabulary is
the sampler's work, not Python's, and is not in it. Time is processor time of the one thread that computes.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from qanat.backends import open_backend
from qanat.checkpoint import load_checkpoint
from qanat.checkpoint.config import ModelConfig
from qanat.checkpoint.names import expected_tensors
from qanat.engine.generation import collect
from qanat.engine.memory import PAGE
from qanat.engine.readers import PlainReader
from qanat.engine.requests import Vocabulary, build_generations
from qanat.engine.sampling_params import SamplingParams
from qanat.engine.scheduler import Scheduler
from qanat.model import TextModel
from qanat.text import Tokenizer

__all__ = ["python_seconds_per_step"]


@dataclass(frozen=True)
class _Random:
    """A tensor of the tiny model."""

    values: NDArray[np.float32]

    def array(self) -> NDArray[np.float32]:
        """The values."""
        return self.values


def _tiny(like: ModelConfig, base: ModelConfig) -> ModelConfig:
    """`like`'s layers at the least sizes; vocabulary and rotary settings of `base`, the built-in model."""
    text = replace(
        base.text,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=like.text.num_hidden_layers,
        layer_types=like.text.layer_types,
        num_attention_heads=1,
        num_key_value_heads=1,
        linear_num_key_heads=1,
        linear_num_value_heads=1,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        mtp_num_hidden_layers=0,
    )
    return replace(base, text=text, vision=None)


def python_seconds_per_step(like: ModelConfig, weights: str, *, tokens: int = 64, rounds: int = 5) -> float:
    """Seconds of one decoding step of one sequence, kernels aside: the median of `rounds` replies.

    Args:
        like: the model whose layers are imitated.
        weights: "int8" or "bf16".
        tokens: length of a reply.
        rounds: how many replies.
    """
    pocket = load_checkpoint("pocket")
    config = _tiny(like, pocket.config)
    rng = np.random.default_rng(0)
    tensors = {
        name: _Random(0.1 * rng.standard_normal(want.shape).astype(np.float32))
        for name, want in expected_tensors(config).items()
    }
    tokenizer = Tokenizer.from_folder(pocket.path)
    vocabulary = Vocabulary.of(tokenizer, pocket)
    model = TextModel(config.text, tensors, open_backend("cpu", weights=weights, threads=1))
    scheduler = Scheduler(model, slots=1, pages=8, page=PAGE, live_vocab=vocabulary.live)

    def seconds(length: int) -> float:
        params = SamplingParams(temperature=0, max_tokens=length, ignore_eos=True)
        generations = build_generations(
            [[1, 2, 3, 4]],
            [params.with_defaults(SamplingParams.greedy())],
            [PlainReader],
            tokenizer=tokenizer,
            vocabulary=vocabulary,
            context=8 * PAGE,
        )
        start = time.thread_time()
        collect(scheduler, generations, tokenizer)
        return time.thread_time() - start

    seconds(2)
    return statistics.median((seconds(tokens + 1) - seconds(1)) / tokens for _ in range(rounds))
