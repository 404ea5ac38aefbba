"""A model with the widths of 0.8B gives the same bits however it is run: its shapes take every path of the
kernels that the small models of `test_cpu_model` are too narrow for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from qanat.backends.cpu.ops import CpuOps
from qanat.checkpoint import load_checkpoint
from qanat.model import TextModel
from tests.model import runs
from tools.published_sizes import published_config
from tools.tiny_models import random_checkpoint

LAYERS, VOCABULARY = 4, 4097  # three delta layers, one of attention; no multiple of a panel
MODES = ("bf16", "int8")
THREADS = (1, 2, 3, 5)
CHUNKS = (1, 7, 64, 512)
TOKENS, CROWD, TOKENS_IN_CROWD = 530, 9, 100  # one chunk of 512 and a rest; more than a page

pytestmark = pytest.mark.proof  # random weights of 170 MB, read some ten thousand times

Model = TextModel[Any]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Model]:
    text = published_config("0.8B")["text_config"]
    cut = {
        "num_hidden_layers": LAYERS,
        "layer_types": text["layer_types"][:LAYERS],
        "vocab_size": VOCABULARY,
        "mtp_num_hidden_layers": 0,
        "eos_token_id": 0,
        "model_type": "qwen3_5_text",
    }
    folder = random_checkpoint(tmp_path_factory.mktemp("widths"), {**text, **cut}, dtype="BF16")
    checkpoint = load_checkpoint(folder)

    def model(mode: str, threads: int) -> Model:
        return TextModel(checkpoint.config.text, checkpoint.tensors, CpuOps(mode, threads=threads))

    return model


def tokens_of(slot: int, count: int) -> NDArray[np.int32]:
    return np.random.default_rng(slot).integers(0, VOCABULARY, count).astype(np.int32)


def pieces(tokens: NDArray[np.int32], size: int) -> list[NDArray[np.int32]]:
    return [tokens[i : i + size] for i in range(0, len(tokens), size)]


@pytest.mark.parametrize("mode", MODES)
def test_chunks_and_threads_change_no_bit(build: Callable[[str, int], Model], mode: str) -> None:
    tokens = tokens_of(0, TOKENS)
    whole = runs.logits_of(build(mode, 1), [tokens])
    assert np.isfinite(whole).all()
    assert whole.std() > 0.1
    for threads in THREADS:
        model = build(mode, threads)
        for size in CHUNKS:
            assert np.array_equal(runs.logits_of(model, pieces(tokens, size)), whole), (threads, size)


@pytest.mark.parametrize("mode", MODES)
def test_crowds_of_one_to_nine_change_no_bit(build: Callable[[str, int], Model], mode: str) -> None:
    """Prompts in pieces and single tokens in one batch, anew at each step; every slot has its own text."""
    texts = [tokens_of(slot, TOKENS_IN_CROWD) for slot in range(CROWD)]
    alone = build(mode, 1)
    whole = [runs.logits_of(alone, [text]) for text in texts]
    models = [build(mode, threads) for threads in THREADS]
    rng = np.random.default_rng(1)
    for count in range(1, CROWD + 1):
        crowd = runs.Sequences(models[count % len(models)], slots=count, tokens=TOKENS_IN_CROWD)
        while any(length < TOKENS_IN_CROWD for length in crowd.length):
            batch = {}
            for slot in rng.permutation(count):
                at, size = crowd.length[slot], int(rng.choice((1, 1, 2, 7, 64)))
                if at < TOKENS_IN_CROWD:
                    batch[int(slot)] = texts[slot][at : at + size]
            starts = list(crowd.length)
            for slot, logits in crowd.feed(batch).items():
                at = starts[slot]
                assert np.array_equal(logits, whole[slot][at : at + len(logits)]), (count, slot, at)
