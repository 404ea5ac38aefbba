"""The instruction set: what the host offers, and what QANAT_SIMD may ask for."""

from __future__ import annotations

import pytest

from qanat.backends.cpu.simd.features import INSTRUCTION_SETS, choose, host_offers
from qanat.errors import RequestError

AVX512 = {"avx512f": True, "avx512bw": True, "avx512vnni": True, "avx2": True, "fma": True}


def test_the_highest_instruction_set_that_is_complete_is_offered() -> None:
    assert host_offers({}) == "generic"
    assert host_offers({"avx2": True, "fma": True}) == "avx2"
    assert host_offers(AVX512) == "avx512"
    assert host_offers({**AVX512, "avx512vnni": False}) == "avx2"
    assert host_offers({"avx2": True}) == "generic"


def test_a_lower_instruction_set_can_be_forced() -> None:
    for offered, name in enumerate(INSTRUCTION_SETS):
        assert choose(name, None) == choose(name, "") == name
        for wanted in INSTRUCTION_SETS[: offered + 1]:
            assert choose(name, wanted) == wanted


@pytest.mark.parametrize(("offered", "wanted"), [("generic", "avx2"), ("avx2", "avx512"), ("avx512", "sse")])
def test_one_that_the_host_lacks_or_nobody_knows_is_refused(offered: str, wanted: str) -> None:
    with pytest.raises(RequestError, match=f"QANAT_SIMD={wanted}"):
        choose(offered, wanted)
