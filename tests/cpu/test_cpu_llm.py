"""`LLM(backend="cpu")`: the answers of the reference, from packed weights that are kept."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from pickle import UnpicklingError

import pytest

from qanat import LLM, Reply, SamplingParams
from qanat.backends.common.choices import damaged_logits
from qanat.backends.cpu.ops import CpuOps
from qanat.backends.cpu.pack_cache import DATA, cached_packs
from qanat.backends.cpu.sampling import Sampler
from qanat.errors import NumericalError, RequestError
from qanat.paths import clear_cache
from tests.pocket_prompts import PROMPTS

GREEDY = SamplingParams(temperature=0, max_tokens=48)


def texts(replies: list[Reply]) -> list[str]:
    return [reply.text for reply in replies]


@cache
def expected() -> list[str]:
    return texts(LLM("pocket", backend="reference").generate(list(PROMPTS), GREEDY))


@pytest.mark.parametrize(("threads", "max_batch"), [(1, 8), (2, 3), (None, 1)])
def test_bfloat16_replies_are_those_of_the_reference(threads: int | None, max_batch: int) -> None:
    llm = LLM("pocket", backend="cpu", weights="bf16", threads=threads, max_batch=max_batch)
    assert texts(llm.generate(list(PROMPTS), GREEDY)) == expected()


def test_int8_replies_are_the_same_alone_and_together() -> None:
    llm = LLM("pocket", backend="cpu", weights="int8", max_batch=8)
    together = texts(llm.generate(list(PROMPTS), GREEDY))
    assert [llm.generate(prompt, GREEDY).text for prompt in PROMPTS[:12]] == together[:12]


def test_sampled_replies_are_the_same_on_every_run() -> None:
    params = [SamplingParams(temperature=1, top_p=0.95, seed=seed, max_tokens=40) for seed in range(6)]
    runs = [
        texts(
            LLM("pocket", backend="cpu", max_batch=size, threads=threads).generate([PROMPTS[0]] * 6, params)
        )
        for size, threads in ((1, 1), (6, 2))
    ]
    assert runs[0] == runs[1]


def test_the_second_start_maps_what_the_first_has_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QANAT_CACHE", str(tmp_path))
    first = texts(LLM("pocket", backend="cpu", weights="int8").generate(list(PROMPTS[:4]), GREEDY))
    assert [(pack.model, pack.weights) for pack in cached_packs()] == [("pocket", "int8")]

    def refuse(*_: object) -> None:
        raise AssertionError("packed again")

    monkeypatch.setattr("qanat.backends.cpu.ops.pack", refuse)
    again = texts(LLM("pocket", backend="cpu", weights="int8").generate(list(PROMPTS[:4]), GREEDY))
    assert again == first


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, 10**6])
def test_a_useless_thread_count_is_refused(threads: int) -> None:
    with pytest.raises(RequestError, match="threads must be a whole number from 1"):
        LLM("pocket", backend="cpu", threads=threads)


def test_damaged_compiled_kernels_are_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[bool] = []
    load = CpuOps._load_kernels

    def damaged_once(ops: CpuOps) -> None:
        if not forgotten:
            raise UnpicklingError("pickle data was truncated")
        load(ops)

    monkeypatch.setattr(CpuOps, "_load_kernels", damaged_once)
    monkeypatch.setattr("qanat.backends.cpu.ops.forget_kernels", lambda: forgotten.append(True))
    assert LLM("pocket", backend="cpu").generate(PROMPTS[0], GREEDY).text == expected()[0]
    assert forgotten == [True]


def test_packed_weights_that_rotted_are_blamed_deleted_and_packed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QANAT_CACHE", str(tmp_path))
    LLM("pocket", backend="cpu", weights="bf16").generate(PROMPTS[0], GREEDY)
    folder = cached_packs()[0].path
    file = folder / DATA
    file.write_bytes(file.read_bytes()[:-100_000] + b"\xff" * 100_000)  # not numbers
    with pytest.raises(NumericalError, match=rf"{folder} were damaged and are deleted now"):
        LLM("pocket", backend="cpu", weights="bf16").generate(PROMPTS[0], GREEDY)
    again = LLM("pocket", backend="cpu", weights="bf16")
    assert again.generate(PROMPTS[0], GREEDY).text == expected()[0]


def test_what_a_sound_pack_makes_of_damaged_weights_is_blamed_on_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    llm = LLM("pocket", backend="cpu", weights="bf16")
    monkeypatch.setattr(Sampler, "sample", lambda *_: raise_damaged())
    with pytest.raises(NumericalError, match="check the model folder"):
        llm.generate(PROMPTS[0], GREEDY)


def raise_damaged() -> None:
    raise damaged_logits()


def test_a_running_model_survives_a_cleared_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_CACHE", str(tmp_path))
    LLM("pocket", backend="cpu", weights="bf16").generate(PROMPTS[0], GREEDY)
    mapped = LLM("pocket", backend="cpu", weights="bf16")
    assert clear_cache() > 0
    assert texts(mapped.generate(list(PROMPTS[:2]), GREEDY)) == expected()[:2]
    assert LLM("pocket", backend="cpu", weights="bf16").generate(PROMPTS[0], GREEDY).text == expected()[0]


def test_a_model_holds_a_handful_of_files_open_however_many_weights_it_has() -> None:
    LLM("pocket", backend="cpu", weights="bf16")  # packed, if it was not
    before = len(list(Path("/proc/self/fd").iterdir()))
    llm = LLM("pocket", backend="cpu", weights="bf16")
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 4
    del llm
