"""Log probabilities of a prompt's tokens: those of the logits before them, however the prompt is computed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from qanat import LLM, Reply, SamplingParams
from qanat.engine.memory import PROMPT_ROWS
from qanat.engine.reply import TokenLogprob
from qanat.model.sampling import Choice, SamplingRow
from tests.engine.fake_model import VOCAB, FakeModel, FakeOps, finish, hash_of, logits_of, make, scheduler
from tests.model import runs

ASKING = SamplingParams(temperature=0.0, ignore_eos=True, prompt_logprobs=3)
LONG = [int(t) for t in np.random.default_rng(0).integers(1, VOCAB, 200)]  # dead ids among them
PROMPTS = [LONG, [5], [1, 2], LONG[50:120], LONG[7:30]]
TEXT = "<|im_start|>user\nWho are you, and what is a qanat? 你好 🙂<|im_end|>\n<|im_start|>assistant\n" * 6


def log_softmax(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    result: np.ndarray = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    return result


def expected_of(prompt: list[int]) -> list[Choice]:
    """By hand: of the logits after each beginning of the prompt."""
    choices = []
    for i in range(1, len(prompt)):
        logits = logits_of(hash_of(prompt[:i]))
        known = log_softmax(logits)
        top = np.argsort(-logits[: VOCAB - 2], kind="stable")[:3]
        choices.append(Choice(prompt[i], known[prompt[i]], tuple((int(t), known[t]) for t in top)))
    return choices


def assert_close(found: Sequence[Choice], expected: Sequence[Choice]) -> None:
    assert [(c.token, [t for t, _ in c.top]) for c in found] == [
        (c.token, [t for t, _ in c.top]) for c in expected
    ]
    numbers = [[[c.logprob, *(p for _, p in c.top)] for c in side] for side in (found, expected)]
    assert np.allclose(*numbers, rtol=0, atol=1e-7)


class Counting(FakeOps):
    """Counts the forced rows."""

    forced = 0

    def sample(self, logits: Any, rows: Sequence[SamplingRow], live_vocab: int) -> list[Choice]:
        self.forced += sum(row.forced is not None for row in rows)
        return super().sample(logits, rows, live_vocab)


@pytest.mark.parametrize("step_tokens", [1, 2, 7, 64, 65, 500])
@pytest.mark.parametrize("slots", [1, 2, 5])
def test_they_are_those_of_the_logits_in_any_company_and_pieces(slots: int, step_tokens: int) -> None:
    silent = SamplingParams(temperature=0.0, ignore_eos=True)
    asking = [make(prompt, ASKING) for prompt in PROMPTS]
    others = [make(prompt, silent) for prompt in PROMPTS]
    ops = Counting()
    engine = scheduler(FakeModel(ops), slots=slots, step_tokens=step_tokens, pages=300)
    finish(engine, [s for pair in zip(asking, others, strict=True) for s in pair])
    for prompt, s, other in zip(PROMPTS, asking, others, strict=True):
        assert_close(s.prompt_choices, expected_of(prompt))
        assert other.prompt_choices == []
        assert s.output.tolist() == other.output.tolist()
    assert ops.forced == sum(len(prompt) - 1 for prompt in PROMPTS)
    assert engine.idle


def test_a_step_has_only_so_many_rows_for_them_and_reads_other_prompts_beside() -> None:
    model = FakeModel()
    sequences = [make(LONG, ASKING, limit=1) for _ in range(3)]
    reader = make(LONG, limit=1)
    finish(scheduler(model, step_tokens=500, pages=300), [*sequences, reader])
    rows = [len(batch.output_rows) for batch in model.batches]
    assert max(rows) <= PROMPT_ROWS + len(sequences)
    assert len(model.batches) == -(-3 * 199 // PROMPT_ROWS)
    assert len(model.batches[0].tokens) > PROMPT_ROWS + 90  # a fair part of what is left


@pytest.mark.parametrize("lost_at", [1, 30, 64, 100, 199])
def test_a_prompt_that_is_computed_again_is_not_asked_about_again(lost_at: int) -> None:
    s, ops = make(LONG, ASKING), Counting()
    engine = scheduler(FakeModel(ops), step_tokens=30, pages=300)
    engine.submit([s])
    engine.advance(lambda: len(s.prompt_choices) >= lost_at)
    engine._preempt(s)
    engine.advance(lambda: s.output_len >= 3)
    engine._preempt(s)
    engine.advance(lambda: s.done)
    assert_close(s.prompt_choices, expected_of(LONG))
    assert ops.forced == len(LONG) - 1
    plain = make(LONG)
    finish(scheduler(step_tokens=500, pages=300), [plain])
    assert s.output.tolist()[: plain.output_len] == plain.output.tolist()


def test_a_state_that_skips_tokens_in_question_is_a_mistake() -> None:
    s = make(LONG, ASKING)
    s.computed = 10
    with pytest.raises(AssertionError, match="log probabilities are wanted"):
        s.scored(5)


# -- with models ---------------------------------------------------------------------------------------


@cache
def pocket(backend: str, weights: str, step_tokens: int = 256, max_batch: int = 1) -> LLM:
    return LLM("pocket", backend=backend, weights=weights, step_tokens=step_tokens, max_batch=max_batch)


def entries(reply: Reply) -> list[TokenLogprob]:
    assert reply.prompt_logprobs is not None
    assert reply.prompt_logprobs[0] is None
    return [entry for entry in reply.prompt_logprobs if entry is not None]


MODES = [("reference", "f32"), ("cpu", "bf16"), ("cpu", "int8")]
ONE = SamplingParams.greedy(max_tokens=1)
SCORED = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=5)


@pytest.mark.parametrize(("backend", "weights", "close"), [(*MODES[0], 1e-7), (*MODES[1], 1e-3)])
def test_of_the_built_in_model_they_are_log_softmax_of_the_references_logits(
    backend: str, weights: str, close: float
) -> None:
    llm = pocket(backend, weights)
    ids = llm.tokenizer.encode(TEXT)
    model: Any = pocket("reference", "f32")._scheduler._model
    known = log_softmax(runs.logits_of(model, [np.array(ids, np.int32)]))
    found = entries(llm.generate(TEXT, SCORED))
    assert [entry.token_id for entry in found] == ids[1:]
    for row, entry in zip(known, found, strict=False):
        top = np.argsort(-row[: llm.vocabulary.live], kind="stable")[:5]
        if backend == "reference":
            assert [other.token_id for other in entry.top] == top.tolist()
        assert np.allclose([other.logprob for other in entry.top], row[top], rtol=0, atol=close)
        assert entry.logprob == pytest.approx(row[entry.token_id], rel=0, abs=close)


@pytest.mark.parametrize(("backend", "weights"), MODES)
def test_pieces_and_company_change_no_bit_of_them(backend: str, weights: str) -> None:
    whole = pocket(backend, weights).generate(TEXT, SCORED)
    assert len(entries(whole)) > 2 * PROMPT_ROWS
    for step_tokens in (1, 7, 64):
        assert pocket(backend, weights, step_tokens).generate(TEXT, SCORED) == whole
    crowd = pocket(backend, weights, 100, 4).generate(
        [TEXT[9:], TEXT, "hello", TEXT, TEXT[20:]], [ONE, SCORED, SCORED, SCORED, ONE]
    )
    assert crowd[1] == crowd[3] == whole
    assert crowd[2] == pocket(backend, weights).generate("hello", SCORED)
    assert (crowd[0].prompt_logprobs, crowd[4].prompt_logprobs) == (None, None)


def test_the_first_token_has_none_and_the_others_have_text_and_bytes(llm: LLM) -> None:
    dead = llm.vocabulary.live
    ids = [*llm.tokenizer.encode("naïve 🙂"), dead, 3]
    reply = llm.generate(ids, SamplingParams(temperature=0.0, max_tokens=2, prompt_logprobs=2, n=2))
    found = entries(reply)
    assert [entry.token_id for entry in found] == ids[1:]
    for entry in found:
        assert entry.bytes == llm.tokenizer.token_bytes(entry.token_id)
        assert entry.token == llm.tokenizer.token_text(entry.token_id)
        assert entry.token_id == dead or entry.logprob <= entry.top[0].logprob
        assert [other.token_id < dead for other in entry.top] == [True, True]
    assert reply.alternatives[0].prompt_logprobs == reply.prompt_logprobs
    assert llm.generate([3], SamplingParams(max_tokens=1, prompt_logprobs=0)).prompt_logprobs == (None,)
    assert reply.logprobs is None


def test_a_chat_and_a_stream_tell_them_too(llm: LLM) -> None:
    messages = [{"role": "user", "content": "hello"}]
    params = SamplingParams(temperature=0.0, max_tokens=2, prompt_logprobs=0)
    reply = llm.chat(messages, params)
    assert len(entries(reply)) == reply.usage.prompt_tokens - 1
    chunks = list(llm.chat(messages, params, stream=True))
    assert chunks[-1].reply == reply


def test_what_a_reply_scores_is_what_it_was_chosen_by(llm: LLM) -> None:
    """Teacher forcing: a reply read as a prompt gets the log probabilities that it was given as a reply."""
    ids = llm.tokenizer.encode("Who are you?")
    reply = llm.generate(ids, SamplingParams(temperature=1.0, seed=3, max_tokens=20, logprobs=4))
    again = llm.generate([*ids, *reply.token_ids], SamplingParams(max_tokens=1, prompt_logprobs=4))
    assert tuple(entries(again)[len(ids) - 1 :]) == reply.logprobs
