"""The ceilings are measured by loops that do what they claim to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from qanat.backends.cpu.ceilings import STREAMS, Ceilings, arithmetic, bandwidth
from qanat.backends.cpu.kernels.ceilings import read
from qanat.backends.cpu.packing import aligned_empty
from qanat.backends.cpu.pool import Pool
from qanat.bench.steps import Sequences


@pytest.mark.parametrize("streams", STREAMS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_read_loop_reads_every_byte_once(streams: int, threads: int) -> None:
    array = aligned_empty(3 * 4096, np.int8)
    words = array.view(np.int32)  # what the loops add up
    words[:] = np.random.default_rng(0).integers(0, 1000, len(words))
    sums = np.zeros(threads, np.float64)
    Pool(threads).run(read, array, streams, sums)
    assert sums.sum() == pytest.approx(words.sum(), rel=1e-5)


def test_rates_are_those_of_a_processor_and_not_of_a_loop_that_was_removed() -> None:
    int8, f32 = arithmetic(1, rounds=3, steps=20_000)
    assert 1 < f32 < 1000  # Gop/s of one thread
    assert 1 < int8 < 4000
    assert 0.5 < bandwidth(1, rounds=3, size=64 << 20) < 1000  # GB/s


def test_medians_are_taken_figure_by_figure() -> None:
    one, two, three = (Ceilings("avx2", {1: r, 2: 10 - r}, {1: 5.0}, {1: r}) for r in (1.0, 7.0, 3.0))
    both = Ceilings.medians([one, two, three])
    assert both == Ceilings("avx2", {1: 3.0, 2: 7.0}, {1: 5.0}, {1: 3.0})
    assert both.best_read_gb_s == 7.0


def test_a_model_runs_without_these_kernels() -> None:
    code = (
        "import sys, qanat.backends.cpu.ops, qanat.cli.app\n"
        "assert not [m for m in sys.modules if 'ceilings' in m or m.startswith('qanat.bench')], sys.modules"
    )
    path = str(Path(sys.modules[Sequences.__module__].__file__ or "").parents[2])
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=True)
