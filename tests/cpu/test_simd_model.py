"""A whole model in int8 gives the same bits on every instruction set that the host has."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest
from llvmlite import binding

from qanat.backends.cpu.simd.features import INSTRUCTION_SETS, host_offers

LOGITS = """
import sys
import numpy as np
from qanat.backends.cpu.ops import CpuOps
from qanat.checkpoint import load_checkpoint
from qanat.model import TextModel
from qanat.cli.forward import all_logits
checkpoint = load_checkpoint("pocket")
model = TextModel(checkpoint.config.text, checkpoint.tensors, CpuOps("int8", threads=2))
ids = np.random.default_rng(3).integers(0, checkpoint.config.text.vocab_size, 200).tolist()
for step in (None, 7, 1):
    logits = all_logits(model, ids, step=step)
    assert np.isfinite(logits).all() and logits.std() > 0.1
    sys.stdout.buffer.write(logits.tobytes())
"""


def logits_on(instruction_set: str) -> bytes:
    """All logits of 200 tokens: read at once, in sevens, one by one."""
    own = {**os.environ, "QANAT_SIMD": instruction_set}
    return subprocess.run([sys.executable, "-c", LOGITS], env=own, check=True, stdout=subprocess.PIPE).stdout


@pytest.mark.proof  # compiles all kernels of the mode for each set, if they are not at hand
def test_logits_of_the_built_in_model_do_not_depend_on_the_instruction_set() -> None:
    offered = INSTRUCTION_SETS.index(host_offers(dict(binding.get_host_cpu_features())))
    if not offered:
        pytest.skip("this host has plain instructions only")
    found = {name: logits_on(name) for name in INSTRUCTION_SETS[: offered + 1]}
    whole = len(found["generic"]) // 3
    assert all(bits[:whole] * 3 == bits for bits in found.values())  # in pieces as at once
    digests = {name: hashlib.sha256(bits).hexdigest() for name, bits in found.items()}
    assert len(set(digests.values())) == 1, digests
