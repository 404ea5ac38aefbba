"""A prompt that begins behind a snapshot goes on as if it had been read whole, at any length, to the bit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from qanat import LLM, SamplingParams
from qanat.engine.scheduler import Scheduler
from qanat.engine.sequence import Sequence as Running
from tests.engine.fake_model import make
from tests.engine.real_schedules import pocket, tokenizer
from tests.model.runs import CPU_PAGE

LENGTH = 200
PARAMS = SamplingParams(temperature=0.9, frequency_penalty=0.4, logprobs=3, ignore_eos=True)
PROMPT = np.random.default_rng(5).integers(0, 950, LENGTH).tolist()
MODES = [("cpu", "bf16"), ("cpu", "int8"), ("reference", "f32")]


def engine(backend: str, weights: str, **sizes: int) -> Scheduler:
    options = {"slots": 2, "snapshots": 8, "pages": 24, "page": CPU_PAGE, "live_vocab": 992, **sizes}
    return Scheduler(pocket(backend, weights), debug=True, **options)


def run(on: Scheduler, prompt: list[int], limit: int = 3, **options: Any) -> Running:
    s = make(prompt, PARAMS, limit=limit, **options)
    on.submit([s])
    on.advance(lambda: s.done)
    assert s.error is None
    return s


def forget(on: Scheduler) -> None:
    while on.memory.cache.evict():
        pass


def choices(s: Running) -> list[Any]:
    return [piece.choice for piece in s.pieces]


def check(backend: str, weights: str, lengths: Iterable[int]) -> None:
    on = engine(backend, weights)
    fresh = choices(run(engine(backend, weights, snapshots=0, step_tokens=1000), PROMPT))
    for length in lengths:
        if length:
            run(on, PROMPT[:length], limit=1)  # kept at its end: the one token it chose was never computed
            assert [snapshot.length for snapshot in on.memory.cache] == [length]
        resumed = run(on, PROMPT)
        assert resumed.cached == length % LENGTH  # of a prompt that is known whole, the last token is missing
        assert choices(resumed) == fresh
        forget(on)
        passing = run(on, PROMPT, marks=[length] if 0 < length < LENGTH else [])
        again = run(on, PROMPT)
        assert (passing.cached, again.cached) == (0, length % LENGTH)
        assert choices(passing) == choices(again) == fresh
        forget(on)


@pytest.mark.parametrize(("backend", "weights"), MODES)
def test_a_prompt_resumes_from_these_lengths(backend: str, weights: str) -> None:
    check(backend, weights, [0, 1, 3, 63, 64, 65, 130, 199, 200])


@pytest.mark.proof
@pytest.mark.parametrize(("backend", "weights"), MODES)
def test_a_prompt_resumes_from_every_length(backend: str, weights: str) -> None:
    check(backend, weights, range(LENGTH + 1))


@pytest.mark.parametrize("weights", ["bf16", "int8"])
def test_penalties_count_what_was_written_before_a_preemption(weights: str) -> None:
    on = engine("cpu", weights, snapshots=0, pages=3, step_tokens=64)
    pair = [make(PROMPT[i : i + 50], PARAMS, limit=90, seed=i) for i in (0, 1)]
    on.submit(pair)
    on.advance(lambda: all(s.done for s in pair))
    assert on.stats().preemptions > 0
    roomy = engine("cpu", weights, snapshots=0)
    for i, s in enumerate(pair):
        assert choices(s) == choices(run(roomy, PROMPT[i : i + 50], limit=90, seed=i))


def test_a_reply_that_is_not_spelled_as_its_text_would_be_goes_on_as_it_was_drawn() -> None:
    on = engine("cpu", "bf16")
    wild = run(on, PROMPT[:20], limit=60)
    drawn = wild.output.tolist()
    spelled = tokenizer().encode(tokenizer().decode(drawn))
    assert spelled != drawn
    for reply, cached in ((drawn, 79), (spelled, 0)):
        prompt = [*PROMPT[:20], *reply, 5, 6, 7]
        resumed = run(on, prompt, seed=1)
        assert resumed.cached == cached
        assert choices(resumed) == choices(run(engine("cpu", "bf16", snapshots=0), prompt, seed=1))


def test_a_chat_reads_again_only_the_last_reply_and_what_follows() -> None:
    llm = LLM("pocket", debug=True)
    cold = LLM("pocket", snapshots=0)
    params = SamplingParams(temperature=0, max_tokens=60)
    chat: list[dict[str, str]] = []
    opening = llm.tokenizer.encode("<|im_start|>assistant\n")
    kept = 0
    for text in ("Who are you?", "hello, what's up?", "How much is 2 + 3?", "Who are you?"):
        chat.append({"role": "user", "content": text})
        prompt = llm.tokenizer.encode(llm.template.render(chat, add_generation_prompt=True))
        reply = llm.chat(chat, params)
        assert reply.usage.cached_tokens == kept
        assert cold.chat(chat, params).token_ids == reply.token_ids
        kept = max(i for i in range(len(prompt)) if prompt[i - len(opening) : i] == opening)
        chat.append({"role": "assistant", "content": reply.text})
    assert llm.idle
    assert llm.chat(chat[:-1], params).usage.cached_tokens == kept  # the same question once more
    assert cold.stats().cached_tokens == 0
