"""The int8 kernel is made of the instructions that are meant, and other instructions give the same bits."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding

from qanat.backends.cpu.simd.features import host_offers

# Compiles the inner kernel for this process's instruction set without running it, and prints its assembly.
COMPILE = """
from numba import njit, types
from qanat.backends.cpu.kernels import linear_int8
from qanat.backends.cpu.simd.dot import ACTIVATION, SPREADS
from qanat.backends.cpu.simd.tile import Tile
from qanat.backends.cpu.simd.types import f32x16

def flat(kind):
    return types.Array(kind, 1, "C")

n, f32 = types.intp, flat(types.float32)
weights = flat(types.int16 if SPREADS else types.int8)
activations = flat(types.int16 if SPREADS else types.int8)
tile = Tile(f32x16, linear_int8.TALL, 1 if SPREADS else linear_int8.TALL_PANELS)
signature = (tile, types.boolean, weights, n, n, flat(types.uint16), n, n, activations, n, n, f32,
             flat(types.int32), n, n, n, f32, n, n, n)
print(njit(signature, nogil=True)(linear_int8._tile.py_func).inspect_asm(signature).split(".Lfunc_end0")[0])
"""

# Runs both linear layers on fixed numbers and prints their bits.
RUN = """
import json, numpy as np
from qanat.backends.cpu import linear, packing
from qanat.backends.cpu.simd.features import INSTRUCTION_SET
from qanat.backends.cpu.step import Step
from qanat.backends.cpu.tape import Runner, Tape
rng = np.random.default_rng(7)
w = rng.standard_normal((70, 200)).astype(np.float32)
x = rng.standard_normal((9, 200)).astype(np.float32)
x[3] = 0
x[4, 5] = 1e30
int8, bf16 = packing.pack([w], "int8"), packing.pack([w], "bf16")
rows = linear.Quantised.empty(9, 200)
bits = []
for n in (1, 2, 9):
    out = np.zeros((2, n, int8.out_padded), np.float32)
    tape = Tape()
    linear.quantise(tape, x, rows)
    linear.multiply_quantised(tape, rows, int8, out[0])
    Runner("int8", 1).run(tape, Step())
    tape = Tape()
    linear.multiply(tape, x[:n], bf16, out[1])
    Runner("bf16", 1).run(tape, Step())
    bits.append(out.tobytes().hex())
print(json.dumps([INSTRUCTION_SET, bits]))
"""


def run(script: str, folder: Path, **environment: str) -> str:
    own = {**os.environ, "NUMBA_CACHE_DIR": str(folder), **environment}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=own, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_avx512_multiplies_by_vpdpbusd_in_registers_of_512_bits(tmp_path: Path) -> None:
    if not binding.get_default_triple().startswith("x86_64"):
        pytest.skip("code for x86 is compiled on x86 only")
    features = "+sse4.2,+ssse3,+avx,+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512vnni"
    assembly = run(COMPILE, tmp_path, NUMBA_CPU_NAME="icelake-server", NUMBA_CPU_FEATURES=features)
    assert len(re.findall(r"vpdpbusd.*%zmm\d+, %zmm\d+, %zmm", assembly)) == 16  # one a vector of the tile


def test_avx2_multiplies_by_vpmaddwd_and_converts_nothing(tmp_path: Path) -> None:
    if not binding.get_default_triple().startswith("x86_64"):
        pytest.skip("code for x86 is compiled on x86 only")
    # For a named processor: on one with VNNI the compiler makes other instructions of the same products.
    features = "+sse4.2,+ssse3,+avx,+avx2,+fma,+f16c"
    assembly = run(COMPILE, tmp_path, NUMBA_CPU_NAME="haswell", NUMBA_CPU_FEATURES=features)
    assert len(re.findall(r"vpmaddwd.*%ymm", assembly)) == 16  # 4 rows, 2 halves of a panel, 2 pairs
    assert not re.search(r"vpmulld|vpmovsx|vpsraw", assembly)


@pytest.mark.proof  # compiles every linear kernel once for each set
def test_every_instruction_set_gives_the_same_bits(tmp_path: Path) -> None:
    offered = host_offers(dict(binding.get_host_cpu_features()))
    if offered == "generic":
        pytest.skip("this host has neither AVX2 nor AVX-512 VNNI")
    sets = ["generic", "avx2"] + (["avx512"] if offered == "avx512" else [])
    results = [json.loads(run(RUN, tmp_path / name, QANAT_SIMD=name)) for name in sets]
    assert [name for name, _ in results] == sets
    assert all(bits == results[0][1] for _, bits in results)
    out = np.frombuffer(bytes.fromhex(results[0][1][2]), np.float32)
    assert np.isfinite(out).all()
    assert out.any()
