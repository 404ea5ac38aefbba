"""Tasks share one model: each gets its own reply, and whoever leaves takes nothing along."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from qanat import LLM, AsyncLLM, Reply, RequestOptions, SamplingParams
from qanat.errors import DeadlineError, QueueFullError, RequestError

PROMPTS = ["Who are you?", "hello", "Tell me a story about a fox.", "What is 2 + 3?", "My name is Ada."]
LONG = SamplingParams(temperature=1.0, seed=1, max_tokens=400, ignore_eos=True)


def run(task: Coroutine[Any, Any, Any], seconds: float = 60) -> Any:
    """Run a coroutine; a test that would wait for ever fails instead."""
    return asyncio.run(asyncio.wait_for(task, seconds))


def wait_until_idle(llm: AsyncLLM) -> None:
    """The computing thread may be on its way out of a step."""
    end = time.monotonic() + 10
    while not llm.idle:
        assert time.monotonic() < end, "something is not free"
        time.sleep(0.001)


def params(seed: int) -> SamplingParams:
    return SamplingParams(temperature=0.8, seed=seed, max_tokens=40)


@pytest.fixture
def model() -> Iterator[AsyncLLM]:
    llm = AsyncLLM("pocket", backend="reference", debug=True)
    yield llm
    asyncio.run(llm.close())


@pytest.fixture(scope="module")
def alone() -> list[Reply]:
    llm = LLM("pocket", backend="reference", max_batch=1, snapshots=0)
    return [llm.generate(prompt, params(i)) for i, prompt in enumerate(PROMPTS)]


def test_tasks_get_the_replies_that_they_would_get_alone(model: AsyncLLM, alone: list[Reply]) -> None:
    async def main() -> list[Reply]:
        return await asyncio.gather(*(model.generate(p, params(i)) for i, p in enumerate(PROMPTS)))

    for turn in range(2):  # the second time in another event loop, and from snapshots
        replies = run(main())
        assert [reply.token_ids for reply in replies] == [reply.token_ids for reply in alone], turn
    wait_until_idle(model)
    assert max(record.running for record in model.steps()) > 1


def test_a_list_is_answered_in_its_order_and_n_replies_come_together(model: AsyncLLM) -> None:
    wanted = [params(7), SamplingParams(temperature=1.0, seed=3, n=3, max_tokens=10)]
    plain = LLM("pocket", backend="reference")
    first, second = run(model.generate(PROMPTS[:2], wanted))
    assert (first, second) == tuple(plain.generate(PROMPTS[:2], wanted))
    assert len(second.alternatives) == 2


def test_streams_are_the_reply_in_pieces(model: AsyncLLM) -> None:
    messages = [{"role": "user", "content": PROMPTS[2]}]

    async def main() -> tuple[list[str], Reply]:
        chunks = [chunk async for chunk in model.stream_chat(messages, params(5))]
        return [chunk.text for chunk in chunks], await model.chat(messages, params(5))

    texts, reply = run(main())
    assert "".join(texts) == reply.text
    assert len(texts) > 5
    assert reply.usage.cached_tokens > 0


@pytest.mark.parametrize("way", ["task", "stream"])
def test_leaving_early_frees_the_state(model: AsyncLLM, way: str) -> None:
    async def main() -> None:
        stays = asyncio.create_task(model.generate(PROMPTS[0], params(0)))
        if way == "task":
            leaver = asyncio.create_task(model.generate("Once", LONG))
            while model.stats().output_tokens < 5:
                await asyncio.sleep(0.01)
            leaver.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaver
        else:
            stream = model.stream("Once", LONG)
            await anext(stream)
            await stream.aclose()  # type: ignore[attr-defined]
        assert (await stays).token_ids

    run(main())
    wait_until_idle(model)
    assert model.stats().cancelled == 1


def test_bad_requests_are_refused_in_their_own_task(model: AsyncLLM, alone: list[Reply]) -> None:
    async def main() -> list[Any]:
        tasks = (model.generate("", params(0)), model.generate(PROMPTS[0], params(0)))
        return await asyncio.gather(*tasks, return_exceptions=True)

    refused, reply = run(main())
    assert isinstance(refused, RequestError)
    assert reply.token_ids == alone[0].token_ids


def test_a_deadline_ends_a_request_that_runs(model: AsyncLLM) -> None:
    begin = time.monotonic()
    with pytest.raises(DeadlineError, match="tokens were written"):
        run(model.generate("Once", LONG, options=RequestOptions(timeout=0.05)))
    assert time.monotonic() - begin < 5
    wait_until_idle(model)


def test_a_full_queue_refuses_and_goes_on() -> None:
    llm = AsyncLLM("pocket", backend="reference", max_batch=1, max_waiting=2)

    async def main() -> list[Any]:
        async with llm:
            tasks = [llm.generate("Once", SamplingParams(temperature=0, max_tokens=30)) for _ in range(9)]
            return await asyncio.gather(*tasks, return_exceptions=True)

    results = run(main())
    refused = [r for r in results if isinstance(r, QueueFullError)]
    answered = [r for r in results if isinstance(r, Reply)]
    assert len(refused) + len(answered) == 9
    assert len(answered) >= 3
    assert refused


def test_closing_ends_what_runs_and_refuses_what_comes() -> None:
    llm = AsyncLLM("pocket", backend="reference")

    async def main() -> None:
        task = asyncio.create_task(llm.generate("Once", LONG))
        while not llm.stats().output_tokens:
            await asyncio.sleep(0.01)
        await llm.close()
        with pytest.raises(RequestError, match="closed while"):
            await task
        with pytest.raises(RequestError, match="is closed"):
            await llm.generate("Once", LONG)
        await llm.close()

    run(main())
    wait_until_idle(llm)


def test_a_fault_of_the_scheduler_reaches_everyone_instead_of_leaving_them_waiting(
    model: AsyncLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(ready: object) -> None:
        raise AssertionError("planted")

    monkeypatch.setattr(model._scheduler, "advance", fail)

    async def main() -> list[Any]:
        tasks = [model.generate(p, params(i)) for i, p in enumerate(PROMPTS)]
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert all(isinstance(r, AssertionError) for r in run(main()))
    monkeypatch.undo()
    assert run(model.generate(PROMPTS[0], params(0))).token_ids


def test_whoever_takes_its_end_late_keeps_the_computing_thread_asleep(model: AsyncLLM) -> None:
    steps = 0
    step = model._scheduler._step

    def counted() -> None:
        nonlocal steps
        steps += 1
        step()

    model._scheduler._step = counted  # type: ignore[method-assign]

    async def main() -> None:
        stream = model.stream("Once", SamplingParams(temperature=0, max_tokens=5, ignore_eos=True))
        await anext(stream)
        time.sleep(0.3)  # the event loop is busy elsewhere; the reply ends meanwhile
        assert [chunk async for chunk in stream][-1].reply is not None

    run(main())
    assert steps < 12


def test_a_forked_child_is_told_that_nobody_computes_there(model: AsyncLLM) -> None:
    run(model.generate("x", params(0)))
    child = os.fork()
    if not child:
        status = 1
        try:
            run(model.generate("x", params(0)), 20)
        except RequestError as error:
            status = 0 if "make a new one" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_thousands_of_tasks_cost_no_more_each_than_a_few(model: AsyncLLM) -> None:
    wanted = SamplingParams(temperature=0, max_tokens=2, ignore_eos=True)

    async def seconds(count: int) -> float:
        begin = time.perf_counter()
        await asyncio.gather(*(model.generate([5], wanted) for _ in range(count)))
        return time.perf_counter() - begin

    run(seconds(50))
    few, many = run(seconds(200)), run(seconds(2000))
    assert many < 40 * few  # ten times as many; a hundred times as long if each step looks at all
