"""Random weights of a realistic size, made block by block: fast, repeatable, in bounded memory.

Each tensor's numbers depend on the seed and its name alone, so neither order nor sharding changes them.
Normal numbers come from a table of 65,536 quantiles looked up by random 16-bit words: about a nanosecond
each, several times faster than drawing and rounding, and indistinguishable for testing an engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from math import prod, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qanat.checkpoint.dtypes import NUMPY
from qanat.checkpoint.names import HEAD, VISION
from qanat.checkpoint.safetensors_write import TensorPlan

BLOCK = 1 << 18  # numbers made at a time: they stay in the cache between their making and their writing
GAIN = 0.7  # std = GAIN / sqrt(fan_in): activations neither die out nor explode, logits stay mild


@lru_cache(maxsize=1)
def _quantiles() -> NDArray[np.float32]:
    """The middle quantiles of the standard normal distribution, [65536]."""
    normal = NormalDist()
    return np.array([normal.inv_cdf((i + 0.5) / 65536) for i in range(65536)], np.float32)


def _generator(seed: int, name: str) -> np.random.Generator:
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.Generator(np.random.SFC64([seed, int.from_bytes(digest[:8], "little")]))


def _normal(
    random: np.random.Generator, count: int, mean: float, std: float, dtype: np.dtype[Any]
) -> Iterator[NDArray[Any]]:
    table = (_quantiles() * np.float32(std) + np.float32(mean)).astype(dtype)
    bits = table.view(f"u{dtype.itemsize}")  # NumPy gathers plain integers faster than foreign types
    raw = random.bit_generator.random_raw
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        words = raw((size + 3) // 4).view(np.uint16)[:size]  # four 16-bit words in each draw
        yield bits.take(words, mode="clip").view(dtype)  # "clip" spares a check: no word is out of range


def random_blocks(plan: TensorPlan, seed: int, *, tied: bool) -> Iterator[NDArray[Any]]:
    """Give the numbers of one tensor of a checkpoint, in row-major order, block by block.

    Args:
        plan: its published name, type and shape.
        seed: of the whole checkpoint.
        tied: whether the head is the embedding, which then must be small.
    """
    name, count, dtype = plan.name, prod(plan.shape), NUMPY[plan.dtype]
    random = _generator(seed, name)
    if name.endswith("A_log"):  # decay rates between 1 and 16
        yield np.log(random.uniform(1.0, 16.0, count)).astype(dtype)
        return
    if name.endswith(
        "dt_bias"
    ):  # softplus(dt_bias) log-uniform in [0.001, 0.1]: memories of 10 to 1000 tokens
        step = np.exp(random.uniform(np.log(1e-3), np.log(0.1), count))
        yield (step + np.log(-np.expm1(-step))).astype(dtype)
        return
    mean, std = _mean_and_std(name, plan.shape, tied)
    yield from _normal(random, count, mean, std, dtype)


def _mean_and_std(name: str, shape: tuple[int, ...], tied: bool) -> tuple[float, float]:
    if name.endswith(".bias") or name.endswith("pos_embed.weight"):
        return 0.0, 0.02
    if len(shape) == 1:  # norms: weights near 1 where they multiply, near 0 where they are 1 + w
        plain = name.endswith("linear_attn.norm.weight") or name.startswith(VISION)
        return (1.0 if plain else 0.0), 0.1
    if name.endswith("embed_tokens.weight") and not tied:
        return 0.0, 0.5
    if name.endswith("embed_tokens.weight") or name == HEAD:
        return 0.0, GAIN / sqrt(shape[1])
    stacked = name.endswith((".gate_up_proj", ".down_proj")) and len(shape) == 3
    fan_in = shape[-1] if stacked else prod(shape[1:])
    return 0.0, GAIN / sqrt(fan_in)
