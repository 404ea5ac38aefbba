"""Ctrl-C at any moment of a reply: it is raised, and the next request is answered as if nothing had been."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from qanat import LLM, SamplingParams
from qanat.engine.interrupts import interrupts_deferred

GREEDY = SamplingParams(temperature=0, max_tokens=30)


@pytest.fixture(autouse=True)
def pythons_own_handler() -> Iterator[None]:
    """Wherever the tests run, SIGINT raises KeyboardInterrupt; a test that hangs ends with its stacks."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.dump_traceback_later(120, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("threads", [1, 2])
def test_after_an_interrupt_at_any_moment_the_next_reply_is_right(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qanat.backends.cpu.tape.SMALL", -1)  # every step wakes all threads
    llm = LLM("pocket", backend="cpu", threads=threads)
    expected = llm.generate("x", GREEDY).token_ids
    interrupted = 0
    for i in range(60):
        timer = threading.Timer(i % 12 / 1500, os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            llm.generate("x", GREEDY)
            timer.join()
            time.sleep(0.001)
        except KeyboardInterrupt:
            interrupted += 1
        timer.join()
        assert llm.generate("x", GREEDY).token_ids == expected
    assert interrupted > 10
    assert llm.idle


def test_a_deferred_interrupt_comes_at_the_end() -> None:
    reached = []

    def interrupted() -> None:
        with interrupts_deferred():
            signal.raise_signal(signal.SIGINT)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("name", ["SIGALRM", "SIGTERM", "SIGUSR1"])
def test_handlers_of_other_signals_wait_too_and_may_raise(name: str) -> None:
    number = getattr(signal, name)

    def late(number: int, frame: object) -> None:
        raise TimeoutError(number)

    before = signal.signal(number, late)
    reached = []

    def interrupted() -> None:
        with interrupts_deferred():
            signal.raise_signal(number)
            reached.append(True)

    try:
        with pytest.raises(TimeoutError):
            interrupted()
        assert reached
        assert signal.getsignal(number) is late
    finally:
        signal.signal(number, before)


def test_after_a_time_limit_at_any_moment_the_next_reply_is_right() -> None:
    def late(number: int, frame: object) -> None:
        raise TimeoutError

    llm = LLM("pocket", backend="reference", debug=True)
    expected = llm.generate("x", GREEDY).token_ids
    before = signal.signal(signal.SIGALRM, late)
    ended = 0
    try:
        for i in range(40):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + i % 10 / 1000)
                llm.generate(["x", "y"], GREEDY)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except TimeoutError:
                ended += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            llm.check_integrity()
        assert llm.generate("x", GREEDY).token_ids == expected
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert ended > 5
    assert llm.idle


def test_an_ignored_interrupt_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts_deferred():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_leave_the_handler_alone() -> None:
    seen: list[object] = []

    def look() -> None:
        with interrupts_deferred():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
