"""What eight bits cost: beside llama.cpp's Q8_0 on hostile numbers, and on the built-in model's answers."""

from __future__ import annotations

import numpy as np
import pytest

from qanat import LLM, SamplingParams
from qanat.backends.cpu.twins import linear as twins


def distribution(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def divergence(true: np.ndarray, other: np.ndarray) -> float:
    """Mean KL of two rows of logits."""
    p, q = distribution(true), distribution(other)
    return float((p * np.log(p / q)).sum(-1).mean())


def q8_0(x: np.ndarray) -> np.ndarray:
    """x as llama.cpp's Q8_0 keeps it: blocks of 32, scale amax / 127 rounded to float16, q rounded by the
    scale before that rounding."""
    blocks = x.reshape(len(x), -1, 32)
    scale = np.abs(blocks).max(-1, keepdims=True) / 127
    q = np.rint(np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale > 0))
    return (q * scale.astype(np.float16).astype(np.float64)).reshape(x.shape)


def layer(outliers: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Activations [64, 512] and a head [700, 512] with eight channels 20 to 100 times as large."""
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((64, 512)), rng.standard_normal((700, 512)) / 8
    loud, factor = rng.choice(512, 8, replace=False), rng.uniform(20, 100, 8)
    if outliers in ("weights", "both"):
        w[:, loud] *= factor
    if outliers in ("activations", "both"):
        x[:, loud] *= factor
    w *= 3 / (x @ w.T).std()  # logits as a model's: neither flat nor one-sided
    return x.astype(np.float32), w.astype(np.float32)


def both_divergences(outliers: str, seed: int) -> tuple[float, float]:
    """(ours, Q8_0's) from the float64 product."""
    x, w = layer(outliers, seed)
    true = x.astype(np.float64) @ w.astype(np.float64).T
    ours = twins.linear_int8(*twins.quantise(x), *twins.quantise_weights(w)).astype(np.float64)
    theirs = q8_0(x.astype(np.float64)) @ q8_0(w.astype(np.float64)).T
    return divergence(true, ours), divergence(true, theirs)


@pytest.mark.parametrize("outliers", ["none", "weights", "activations", "both"])
def test_outlier_channels_cost_no_more_than_they_cost_q8_0(outliers: str) -> None:
    ours, theirs = np.mean([both_divergences(outliers, seed) for seed in range(20)], axis=0)
    assert 0 < ours <= theirs, (ours, theirs)


@pytest.mark.parametrize("count", [6, pytest.param(100, marks=pytest.mark.proof)])
def test_held_out_loss_moves_by_less_than_half_a_percent(count: int) -> None:
    pytest.importorskip("tokenizers", reason="the corpus is encoded with Hugging Face's tokenizers")
    from tools.pocket.held_out_loss import held_out_loss

    exact = held_out_loss("pocket", count, backend="reference", weights="f32")
    assert abs(held_out_loss("pocket", count, backend="cpu", weights="int8") - exact) < 0.005 * exact


@pytest.mark.parametrize("count", [1, pytest.param(40, marks=pytest.mark.proof)])
def test_answers_stay_the_same_and_stories_sound(count: int) -> None:
    pytest.importorskip("tokenizers", reason="the corpus is made of its tokens")
    from tools.pocket import tokenizer
    from tools.pocket.corpus import Fragments
    from tools.pocket.evaluate import all_cases
    from tools.pocket.scoring.replies import LONGEST_REPLY, Speaker, generate

    speaker = Speaker("pocket", backend="reference")
    fragments = Fragments.of(tokenizer.load(speaker.llm.checkpoint.path))
    cases = all_cases(fragments, count, 77, thinking=False)
    prompts = speaker.prompts(cases, thinking=False)
    greedy = SamplingParams(temperature=0, max_tokens=LONGEST_REPLY)
    texts = [
        generate(LLM("pocket", backend="cpu", weights=weights), [(prompt, greedy) for prompt in prompts])
        for weights in ("bf16", "int8")
    ]
    told = np.array([case.group == "story" for case in cases])
    same = np.array([a == b for a, b in zip(*texts, strict=True)])
    assert same[~told].mean() >= 0.99 - 1 / len(cases)
    # A story has many good words to go on with: it may change where two are as likely, but stays a story.
    stories = [(case, text) for case, text in zip(cases, texts[1], strict=True) if case.group == "story"]
    assert np.mean([case.right(text, case.expected) for case, text in stories]) >= 0.95
