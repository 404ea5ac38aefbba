"""What `LLM` refuses by name, and that many requests, dropped ones and ended ones cost and leave nothing."""

from __future__ import annotations

import gc
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from qanat.engine import LLM, SamplingParams, generation
from qanat.engine.request_options import RequestOptions
from qanat.engine.scheduler import Scheduler
from qanat.errors import RequestError

PROMPTS = ["hello", "Who are you?", "x"]
GREEDY = SamplingParams(temperature=0.0, max_tokens=12)


@pytest.mark.parametrize("name", ["max_tokens", "temperature", "foo", "enable_thoughts"])
def test_a_keyword_that_the_template_does_not_read_is_refused(llm: LLM, name: str) -> None:
    with pytest.raises(RequestError, match=f"{name} would do nothing"):
        llm.chat([{"role": "user", "content": "hello"}], **{name: 4})


@pytest.mark.parametrize("options", [{"priority": 1}, [RequestOptions()], 3])
def test_options_of_another_type_are_refused(llm: LLM, options: Any) -> None:
    with pytest.raises(RequestError, match="options must be RequestOptions"):
        llm.generate("hello", options=options)


def test_thousands_of_prompts_cost_no_more_each_than_hundreds(tiny_folder: Path) -> None:
    llm = LLM(tiny_folder)
    wanted = SamplingParams(temperature=0, max_tokens=2, ignore_eos=True)

    def seconds(count: int) -> float:
        begin = time.perf_counter()
        llm.generate([[5]] * count, wanted)
        return time.perf_counter() - begin

    seconds(50)
    few, many = seconds(300), seconds(3000)
    assert many < 40 * few  # ten times as many; a hundred times as long if each step looks at all


def test_streams_that_are_dropped_while_others_are_queued_harm_nobody(llm: LLM) -> None:
    """A finaliser may run between any two instructions, in the middle of queueing too."""
    scheduler = llm._scheduler
    dropped = llm.generate("x", GREEDY, stream=True)
    next(dropped)
    arrivals = 0

    class Dropping(Scheduler):
        @property
        def _arrivals(self) -> int:  # type: ignore[override]
            dropped.close()
            return arrivals

        @_arrivals.setter
        def _arrivals(self, value: int) -> None:
            nonlocal arrivals
            arrivals = value

    scheduler.__class__ = Dropping
    try:
        assert len(llm.generate(["y", "z"], GREEDY)) == 2
    finally:
        scheduler.__class__ = Scheduler
    assert llm.idle


def test_what_has_ended_is_gone_without_the_garbage_collector(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[weakref.ref[generation.Growing]] = []

    class Watched(generation.Growing):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            kept.append(weakref.ref(self))

    monkeypatch.setattr(generation, "Growing", Watched)
    gc.collect()
    gc.disable()
    try:
        llm.generate(PROMPTS[:3], GREEDY)
        stream = llm.generate("x", GREEDY, stream=True)
        next(stream)
        stream.close()
        del stream
        assert [reference() for reference in kept] == [None, None]
    finally:
        gc.enable()
