"""Steps as programs: the same bits as operation by operation, whatever came before in the same memory."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

from qanat.backends.cpu import programs
from qanat.backends.cpu.ops import CpuOps
from qanat.backends.cpu.pool import Pool
from qanat.model.batch import FRESH, Batch
from tests.cpu.test_cpu_model import MODES, model, tokens_of


def batch_of(tokens: np.ndarray, cached: int, src: int, dst: int, rows: list[int]) -> Batch:
    positions = np.arange(cached, cached + len(tokens), dtype=np.int32)
    return Batch(
        tokens=tokens,
        starts=np.array([0, len(tokens)], np.int32),
        cache_len=np.array([cached], np.int32),
        rope_positions=np.tile(positions, (3, 1)),
        page_table=np.arange(4, dtype=np.int32)[None],
        src_slot=np.array([src], np.int32),
        dst_slot=np.array([dst], np.int32),
        output_rows=np.array(rows, np.int32),
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_program_does_what_its_operations_do_one_by_one(mode: str) -> None:
    llm, tokens = model("value_heads_2x", mode, 2), tokens_of("value_heads_2x", 30)
    state, other = (llm.new_state(2, 4, 64) for _ in range(2))
    for at, stop in ((0, 20), (20, 21), (21, 22), (22, 30), (0, 20)):
        batch = batch_of(tokens[at:stop], at, FRESH if at == 0 else 1, 1, [0, stop - at - 1])
        planned = llm.forward(batch, state)
        hidden, logits = planned.hidden.copy(), planned.logits.copy()
        single = llm._forward(batch, other)
        assert np.array_equal(hidden, single.hidden)
        assert np.array_equal(logits, single.logits)


def test_a_step_without_output_rows_leaves_the_same_state() -> None:
    llm, tokens = model("value_heads_2x", "int8", 2), tokens_of("value_heads_2x", 30)
    results = []
    for rows in ([], [19]):
        state = llm.new_state(1, 4, 64)
        out = llm.forward(batch_of(tokens[:20], 0, FRESH, 0, rows), state)
        assert out.logits.shape[0] == len(rows)
        results.append(llm.forward(batch_of(tokens[20:], 20, 0, 0, [9]), state).logits.copy())
    assert np.array_equal(*results)


def test_sequences_that_swap_their_slots_read_what_was_there_before() -> None:
    llm, tokens = model("value_heads_2x", "bf16", 2), tokens_of("value_heads_2x", 30)

    def both(src: list[int], dst: list[int], state: Any) -> np.ndarray:
        one = batch_of(tokens[:4], 0, FRESH, 0, [3])
        batch = Batch(
            tokens=np.concatenate([tokens[4:6], tokens[9:11]]),
            starts=np.array([0, 2, 4], np.int32),
            cache_len=np.array([4, 4], np.int32),
            rope_positions=np.tile(np.array([4, 5, 4, 5], np.int32), (3, 1)),
            page_table=np.array([[0], [1]], np.int32),
            src_slot=np.array(src, np.int32),
            dst_slot=np.array(dst, np.int32),
            output_rows=np.array([1, 3], np.int32),
        )
        llm.forward(one, state)
        two = batch_of(tokens[5:9], 0, FRESH, 1, [3])
        llm.forward(
            Batch(**{**two.__dict__, "page_table": np.array([[1]], np.int32)}),
            state,
        )
        logits: np.ndarray = llm.forward(batch, state).logits.copy()
        return logits

    straight = both([0, 1], [0, 1], llm.new_state(2, 4, 64))
    assert np.array_equal(both([0, 1], [1, 0], llm.new_state(2, 4, 64)), straight)


def test_a_token_outside_the_vocabulary_is_refused_before_memory_is_touched() -> None:
    llm = model("value_heads_2x", "int8", 2)
    state = llm.new_state(1, 4, 64)
    for token in (-1, 1 << 20):
        for _ in range(2):  # when the program is written, and when it is there
            with pytest.raises(IndexError):
                llm.forward(batch_of(np.array([token], np.int32), 0, FRESH, 0, [0]), state)


def test_only_so_many_programs_are_kept() -> None:
    held, state = programs.Programs(), object()
    for rows in range(programs.KEPT + 5):
        held.find(state, (rows, 1))
        held.keep((rows, 1), held.new())
    assert held.find(state, (0, 1)) is None
    assert held.find(state, (programs.KEPT, 1)) is not None
    assert held.find(object(), (programs.KEPT, 1)) is None


def test_of_the_memory_that_programs_share_only_the_largest_is_kept() -> None:
    held, state, buffers = programs.Programs(), object(), []
    held.find(state, None)
    for rows in (*range(1, 30), 7, 40, 3):
        program = held.new()
        program.output = program.room("logits", rows, 100), program.quantised(rows, 64)
        buffers += [weakref.ref(program.output[0].base), weakref.ref(program.output[1])]
        held.keep((rows, rows) if rows % 2 else None, program)
        del program
        assert len({id(buffer()) for buffer in buffers if buffer() is not None}) == 2
    assert held.find(state, (3, 3)) is not None
    assert held.find(state, (7, 7)) is None


def test_every_thread_of_a_pool_runs_the_kernel_and_errors_come_back() -> None:
    pool, seen = Pool(4), []

    def kernel(thread: int, threads: int, fails: bool) -> None:
        seen.append((thread, threads))
        if fails and thread == 2:
            raise OverflowError("two")

    for _ in range(50):
        pool.run(kernel, False)
    assert sorted(seen) == sorted([(t, 4) for t in range(4)] * 50)
    with pytest.raises(OverflowError, match="two"):
        pool.run(kernel, True)
    pool.run(kernel, False)


def test_the_threads_of_a_pool_end_with_it() -> None:
    before = threading.active_count()
    pool = Pool(3)
    assert threading.active_count() == before + 2
    del pool
    for _ in range(100):
        if threading.active_count() == before:
            break
        time.sleep(0.02)
    assert threading.active_count() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_computes_with_threads_of_its_own() -> None:
    pool = Pool(3)
    pool.run(lambda thread, threads: None)
    child = os.fork()
    if child == 0:
        seen: list[int] = []
        pool.run(lambda thread, threads: seen.append(thread))
        os._exit(0 if sorted(seen) == [0, 1, 2] else 1)
    for _ in range(200):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0


def test_an_interrupt_while_kernels_are_compiled_is_no_damaged_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(ops: CpuOps) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise RuntimeError("no compiled object yet")  # noqa: B904  (as Numba does)

    monkeypatch.setattr(CpuOps, "_load_kernels", interrupted)
    monkeypatch.setattr("qanat.backends.cpu.ops.forget_kernels", lambda: pytest.fail("forgotten"))
    with pytest.raises(KeyboardInterrupt):
        CpuOps("int8", threads=1).seal()
