"""Which instruction set the kernels are compiled for.

Three are written: "avx512" (with VNNI), "avx2" and "generic", which is plain LLVM and runs anywhere. The
environment variable QANAT_SIMD chooses a lower one than the host offers, for tests and for comparisons.
Results do not depend on the choice.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from llvmlite import binding

from qanat.errors import RequestError

__all__ = ["INSTRUCTION_SET", "INSTRUCTION_SETS", "choose", "host_offers"]

INSTRUCTION_SETS = ("generic", "avx2", "avx512")
"""From the lowest to the highest."""

_NEEDS = {
    "avx512": ("avx512f", "avx512bw", "avx512vnni", "avx2", "fma"),
    "avx2": ("avx2", "fma"),
    "generic": (),
}


def host_offers(features: Mapping[str, bool]) -> str:
    """The highest instruction set whose needs the CPU `features` meet."""
    return next(
        name for name in reversed(INSTRUCTION_SETS) if all(features.get(need, False) for need in _NEEDS[name])
    )


def choose(offered: str, wanted: str | None) -> str:
    """`wanted` (the value of QANAT_SIMD) if the host can run it, `offered` if nothing is wanted.

    Raises RequestError for an unknown name, and for a set that the host lacks.
    """
    if not wanted:
        return offered
    if wanted not in INSTRUCTION_SETS:
        raise RequestError(f"QANAT_SIMD={wanted}: choose one of {', '.join(INSTRUCTION_SETS)}")
    if INSTRUCTION_SETS.index(wanted) > INSTRUCTION_SETS.index(offered):
        raise RequestError(f"QANAT_SIMD={wanted}: this machine only offers {offered}; unset it or go lower")
    return wanted


def _host_features() -> Mapping[str, bool]:
    """What Numba compiles for: the host's features, or those that NUMBA_CPU_FEATURES names."""
    named = os.environ.get("NUMBA_CPU_FEATURES")
    if named is None:
        return dict(binding.get_host_cpu_features())
    return {flag[1:]: flag.startswith("+") for flag in named.split(",") if flag}


INSTRUCTION_SET = choose(host_offers(_host_features()), os.environ.get("QANAT_SIMD"))
"""The instruction set of this process."""
