"""`LLM.generate` on a tiny random model."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qanat.checkpoint import load_checkpoint
from qanat.engine import LLM, Reply, ReplyChunk, SamplingParams
from qanat.engine.request_options import RequestOptions
from qanat.errors import DeadlineError, NumericalError, RequestError, UnsupportedError
from tests.engine.tiny import scripted, write_tiny
from tools.tiny_models import random_checkpoint

PROMPTS = [
    "Who are you?",
    "hello, what's up?",
    "The qanat brings water a long way. " * 3,
    "x",
    "1 2 3 4 5 6 7 8 9",
    "naïve café, 你好 🙂",
]
SAMPLED = SamplingParams(temperature=1.2, top_k=50, presence_penalty=0.4, seed=9, max_tokens=10, logprobs=2)
GREEDY = SamplingParams.greedy(max_tokens=10)


def test_a_reply_is_the_same_alone_and_in_any_crowd(llm: LLM) -> None:
    for params in (GREEDY, SAMPLED):
        alone = [llm.generate(p, params) for p in PROMPTS]
        assert llm.generate(PROMPTS, params) == alone
        assert llm.generate(PROMPTS[::-1], params) == alone[::-1]
    assert len({r.token_ids for r in alone}) == len(PROMPTS)


@pytest.mark.parametrize(("step_tokens", "max_batch"), [(1, 1), (3, 2), (7, 5), (64, 3)])
def test_a_reply_is_the_same_for_any_chunking(
    llm: LLM, tiny_folder: Path, step_tokens: int, max_batch: int
) -> None:
    other = LLM(tiny_folder, step_tokens=step_tokens, max_batch=max_batch, max_model_len=200)
    assert other.generate(PROMPTS[:4], SAMPLED) == llm.generate(PROMPTS[:4], SAMPLED)
    assert other.idle


def test_greedy_equals_recomputing_everything_for_each_token(llm: LLM) -> None:
    ids = llm.tokenizer.encode(PROMPTS[0])
    reply = llm.generate(ids, GREEDY)
    one = SamplingParams.greedy(max_tokens=1)
    for n, token in enumerate(reply.token_ids):
        assert llm.generate([*ids, *reply.token_ids[:n]], one).token_ids == (token,)


def test_text_is_the_decoded_ids_and_usage_counts_them(llm: LLM) -> None:
    for reply, prompt in zip(llm.generate(PROMPTS, SAMPLED), PROMPTS, strict=True):
        assert reply.text == llm.tokenizer.decode(reply.token_ids, skip_special_tokens=True)
        assert reply.usage.prompt_tokens == len(llm.tokenizer.encode(prompt))
        assert reply.usage.completion_tokens == len(reply.token_ids)
        assert (reply.reasoning, reply.tool_calls) == (None, ())


def test_texts_and_ids_are_equal_prompts(llm: LLM) -> None:
    ids = llm.tokenizer.encode(PROMPTS[1])
    by_text = llm.generate(PROMPTS[1], GREEDY)
    assert llm.generate(ids, GREEDY) == by_text
    assert llm.generate([PROMPTS[1], ids], GREEDY) == [by_text, by_text]
    assert llm.generate(np.array(ids), GREEDY) == by_text  # type: ignore[call-overload]


def test_each_prompt_can_have_its_own_parameters(llm: LLM) -> None:
    both = llm.generate(["x", "x"], [SamplingParams(max_tokens=2), SamplingParams(max_tokens=5)])
    assert [len(r.token_ids) for r in both] == [2, 5]
    assert both[1].token_ids[:2] == both[0].token_ids


def test_seeds_repeat_and_differ(llm: LLM) -> None:
    def tokens(seed: int | None) -> Reply:
        return llm.generate("x", SamplingParams(temperature=2.0, seed=seed, max_tokens=10))

    assert tokens(1) == tokens(1)
    assert tokens(1).token_ids != tokens(2).token_ids
    fresh = tokens(None)
    assert fresh.token_ids != tokens(None).token_ids
    assert tokens(fresh.seed) == fresh


def test_n_replies_are_different_and_each_as_if_alone(llm: LLM) -> None:
    params = SamplingParams(temperature=2.0, seed=5, max_tokens=8, n=3)
    first, second = llm.generate(["x", "hello"], params)
    assert [r.choice_index for r in (first, *first.alternatives)] == [0, 1, 2]
    assert len({r.token_ids for r in (first, *first.alternatives)}) == 3
    alone = llm.generate("x", SamplingParams(temperature=2.0, seed=5, max_tokens=8))
    assert alone.token_ids == first.token_ids
    assert second == llm.generate("hello", params)


def test_streams_join_to_the_reply(llm: LLM) -> None:
    expected = llm.generate(PROMPTS, SAMPLED)
    texts: dict[int, str] = {}
    ids: dict[int, tuple[int, ...]] = {}
    replies: dict[int, Reply] = {}
    logprobs: dict[int, tuple[Any, ...]] = {}
    for chunk in llm.generate(PROMPTS, SAMPLED, stream=True):
        i = chunk.prompt_index
        assert i not in replies
        texts[i] = texts.get(i, "") + chunk.text
        ids[i] = ids.get(i, ()) + chunk.token_ids
        logprobs[i] = logprobs.get(i, ()) + (chunk.logprobs or ())
        if chunk.reply is not None:
            replies[i] = chunk.reply
    for i, reply in enumerate(expected):
        assert replies[i] == reply
        assert (texts[i], ids[i], logprobs[i]) == (reply.text, reply.token_ids, reply.logprobs)


def test_a_stream_brings_each_token_as_it_is_made(llm: LLM) -> None:
    expected = llm.generate("x", GREEDY).token_ids
    assert [c.token_ids for c in llm.generate("x", GREEDY, stream=True)] == [(t,) for t in expected]


def test_a_stream_nobody_reads_goes_on_when_others_step(llm: LLM) -> None:
    expected = llm.generate("x", GREEDY)
    stream = llm.generate("x", GREEDY, stream=True)
    first = next(stream)
    llm.generate("hello", GREEDY)
    rest = list(stream)
    assert first.token_ids + tuple(t for c in rest for t in c.token_ids) == expected.token_ids
    assert rest[-1].reply == expected


def test_closing_or_dropping_a_stream_frees_its_state(llm: LLM) -> None:
    for number in range(8):
        stream = llm.generate(PROMPTS[:3], SAMPLED, stream=True)
        for _ in range(number):
            next(stream)
        assert not llm.idle or number == 0
        if number % 2:
            stream.close()  # type: ignore[attr-defined]
        else:
            del stream
            gc.collect()
        assert llm.idle


def test_a_storm_of_streams_leaves_every_survivor_right(llm: LLM) -> None:
    expected = [llm.generate(p, SAMPLED) for p in PROMPTS]
    rng = random.Random(3)
    streams: dict[int, Iterator[ReplyChunk]] = {}
    finished = 0
    for turn in range(160):
        if turn < 60 and len(streams) < 9:
            streams[turn] = llm.generate(PROMPTS[turn % len(PROMPTS)], SAMPLED, stream=True)
        if not streams:
            break
        number = rng.choice(list(streams))
        if rng.random() < 0.08:
            del streams[number]
            continue
        chunk = next(streams[number])
        if chunk.reply is not None:
            assert chunk.reply == expected[number % len(PROMPTS)]
            finished += 1
            del streams[number]
    streams.clear()
    gc.collect()
    assert finished > 5
    assert llm.idle


def test_an_error_in_the_consumer_frees_the_state(llm: LLM) -> None:
    def consume() -> None:
        for _ in llm.generate(PROMPTS, SAMPLED, stream=True):
            raise KeyError("consumer")

    with pytest.raises(KeyError):
        consume()
    gc.collect()
    assert llm.idle


def test_threads_may_generate_at_once(llm: LLM) -> None:
    expected = {p: llm.generate(p, SAMPLED) for p in PROMPTS}
    wrong: list[str] = []

    def work(prompt: str) -> None:
        for _ in range(2):
            if llm.generate(prompt, SAMPLED) != expected[prompt]:
                wrong.append(prompt)

    threads = [threading.Thread(target=work, args=(p,)) for p in PROMPTS]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong
    assert not any(t.is_alive() for t in threads)


def test_logprobs_come_for_every_token_with_text_and_bytes(llm: LLM) -> None:
    reply = llm.generate(PROMPTS[5], SAMPLED)
    assert reply.logprobs is not None
    assert [entry.token_id for entry in reply.logprobs] == list(reply.token_ids)
    for entry in reply.logprobs:
        assert entry.bytes == llm.tokenizer.token_bytes(entry.token_id)
        assert entry.logprob < 0
        assert len(entry.top) == 2
        assert entry.top[0].logprob >= entry.top[1].logprob
    greedy = llm.generate("x", SamplingParams(temperature=0.0, max_tokens=4, logprobs=1))
    assert greedy.logprobs is not None
    assert all(e.top[0].token_id == e.token_id and e.top[0].logprob == e.logprob for e in greedy.logprobs)
    assert llm.generate("x", GREEDY).logprobs is None


def test_logprobs_ignore_penalties_and_bias(llm: LLM) -> None:
    plain = llm.generate("x", SamplingParams(max_tokens=1, logprobs=20))
    assert plain.logprobs is not None
    second = plain.logprobs[0].top[1]
    pushed = llm.generate("x", SamplingParams(max_tokens=1, logprobs=0, logit_bias={second.token_id: 100.0}))
    assert pushed.logprobs is not None
    assert pushed.logprobs[0].token_id == second.token_id
    assert pushed.logprobs[0].logprob == second.logprob
    assert pushed.logprobs[0].top == ()


def test_the_end_token_is_counted_but_not_shown(llm: LLM) -> None:
    with scripted(llm, "done."):
        reply = llm.generate("x", GREEDY)
    assert (reply.text, reply.finish_reason) == ("done.", "stop")
    assert reply.token_ids[-1] == llm.tokenizer.token_id("<|im_end|>")
    with scripted(llm, "done."):
        shown = llm.generate("x", SamplingParams(skip_special_tokens=False))
    assert shown.text == "done.<|im_end|>"


@pytest.mark.parametrize("end", ["<|im_end|>", "<|endoftext|>"])
def test_every_end_token_of_the_family_ends_a_reply(llm: LLM, end: str) -> None:
    with scripted(llm, f"a{end}b<|im_end|>"):
        assert llm.generate("x").text == "a"
    with scripted(llm, f"a{end}b", end=False):
        on = llm.generate("x", SamplingParams(ignore_eos=True, max_tokens=3, skip_special_tokens=False))
    assert (on.text, on.finish_reason) == (f"a{end}b", "length")


def test_stop_texts_cut_the_text_wherever_tokens_end(llm: LLM) -> None:
    text = "The first line.\nUser: hello there"
    for stop, shown in (
        ("\nUser:", "The first line."),
        ("st l", "The fir"),
        ("zzz", text),
        (["er:", "ine"], "The first l"),
    ):
        with scripted(llm, text):
            reply = llm.generate("x", SamplingParams(stop=stop))
            chunks = list(llm.generate("x", SamplingParams(stop=stop), stream=True))
        assert (reply.text, reply.finish_reason) == (shown, "stop")
        assert "".join(c.text for c in chunks) == shown
    with scripted(llm, text):
        assert llm.generate("x", SamplingParams(stop="line", include_stop=True)).text == "The first line"


def test_a_special_token_as_stop_text_works_too(llm: LLM) -> None:
    with scripted(llm, "a<|im_start|>b"):
        assert llm.generate("x", SamplingParams(stop="<|im_start|>")).text == "a"
    with pytest.raises(RequestError, match="special token"):
        llm.generate("x", SamplingParams(stop="\n<|im_start|>"))


def test_a_stop_token_id_ends_the_reply_unseen(llm: LLM) -> None:
    ids = llm.tokenizer.encode("one two three")
    with scripted(llm, "one two three"):
        reply = llm.generate("x", SamplingParams(stop_token_ids=[ids[-1]]))
        kept = llm.generate("x", SamplingParams(stop_token_ids=[ids[-1]], include_stop=True))
    assert (reply.text, reply.finish_reason) == (llm.tokenizer.decode(ids[:-1]), "stop")
    assert reply.token_ids == kept.token_ids == tuple(ids)
    assert kept.text == "one two three"


def test_text_never_shows_half_a_character(llm: LLM) -> None:
    with scripted(llm, "🙂é你"):
        chunks = list(llm.generate("x", stream=True))
    assert all("\ufffd" not in c.text for c in chunks)
    with scripted(llm, "🙂"):
        cut = llm.generate("x", SamplingParams(max_tokens=1))
    assert cut.text == "\ufffd" or len(llm.tokenizer.encode("🙂")) == 1


def test_the_context_ends_a_reply_that_nothing_else_ends(tiny_folder: Path) -> None:
    small = LLM(tiny_folder, max_model_len=12)
    reply = small.generate([1, 2, 3], SamplingParams(ignore_eos=True))
    assert (len(reply.token_ids), reply.finish_reason) == (9, "length")
    beyond = small.generate([1, 2, 3], SamplingParams(ignore_eos=True, max_tokens=100))
    assert (beyond.token_ids, beyond.finish_reason) == (reply.token_ids, "length")
    assert len(small.generate([1] * 11, SamplingParams(ignore_eos=True)).token_ids) == 1
    with pytest.raises(RequestError, match="maximum context length is 12"):
        small.generate([1] * 12)
    assert small.idle


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("", "prompt is empty"),
        ([], "prompt is empty"),
        (["x", ""], "prompt 1 is empty"),
        (["x", []], "prompt 1 is empty"),
        ([1, "x"], "whole numbers"),
        ([[1, 2.5]], "whole numbers"),
        ([True], "whole numbers"),
        (7, "text or a list"),
        (b"x", "text or a list"),
        (bytearray(b"x"), "text or a list"),
        ([b"x"], "text or a list"),
        (None, "text or a list"),
        ([10**9], "token id 1000000000"),
        ([-1], "token id -1"),
        ("word " * 700, "raise max_model_len"),
        ("a <|vision_start|><|image_pad|><|vision_end|>", "no vision tower"),
    ],
)
def test_a_bad_prompt_is_refused_before_anything_runs(llm: LLM, prompt: Any, message: str) -> None:
    for stream in (False, True):
        with pytest.raises(RequestError, match=message) as error:
            llm.generate(prompt, stream=stream)
        assert "\n" not in str(error.value)
    with pytest.raises(RequestError, match="token id"):
        llm.generate([10**5000])  # Python refuses to print it


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ([SamplingParams()] * 2, "1 prompts but 2"),
        ({"temperature": 1}, "must be a SamplingParams"),
        (SamplingParams(logit_bias={10**6: 1.0}), "logit_bias names token id 1000000"),
        (SamplingParams(stop_token_ids=[10**6]), "stop_token_ids names token id 1000000"),
    ],
)
def test_bad_parameters_are_refused(llm: LLM, params: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        llm.generate("x", params)


def test_dead_rows_and_padding_are_never_generated(llm: LLM) -> None:
    assert llm.vocabulary.live == len(llm.tokenizer) < llm.config.text.vocab_size
    reply = llm.generate("x", SamplingParams(temperature=100.0, seed=1, max_tokens=80, ignore_eos=True))
    assert max(reply.token_ids) < llm.vocabulary.live


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_damaged_weights_give_a_clear_error(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = LLM("pocket", backend=backend)
    model = llm._scheduler._model
    monkeypatch.setattr(model, "final_norm", np.full_like(model.final_norm, np.nan))
    with pytest.raises(NumericalError, match="not a finite number"):
        llm.generate("x", GREEDY)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_options_that_leave_nothing_to_choose_end_nobody_elses_reply(tiny_folder: Path, backend: str) -> None:
    llm = LLM(tiny_folder, backend=backend, debug=True)
    everything = SamplingParams.greedy()
    everything = replace(everything, min_tokens=1, stop_token_ids=range(llm.vocabulary.live))
    expected = [llm.generate(p, SAMPLED).token_ids for p in PROMPTS[:2]]
    streams = [llm.generate(p, SAMPLED, stream=True) for p in PROMPTS[:2]]
    got = [[*next(stream).token_ids] for stream in streams]
    with pytest.raises(RequestError, match="every token is banned"):
        llm.generate("x", everything)
    for ids, stream in zip(got, streams, strict=True):
        ids.extend(i for chunk in stream for i in chunk.token_ids)
    assert [tuple(ids) for ids in got] == expected
    stats = llm.stats()
    assert (stats.failed, stats.finished) == (1, 4)
    assert stats.output_tokens == sum(len(ids) for ids in expected) * 2
    assert llm.idle


def test_bfloat16_weights_round_but_run(tmp_path: Path) -> None:
    folder = write_tiny(tmp_path / "m", dtype="float32")
    rounded = LLM(folder, weights="bf16", max_model_len=64)
    assert rounded.memory.weights == "bf16"
    assert len(rounded.generate("x", GREEDY).token_ids) == 10


@pytest.mark.parametrize(
    "options",
    [
        {"backend": "quantum"},
        {"weights": "int1"},
        {"max_batch": 0},
        {"max_batch": True},
        {"step_tokens": 0},
        {"max_model_len": 10**7},
        {"max_model_len": 0},
        {"max_model_len": True},
        {"max_model_len": 64.0},
        {"max_model_len": 10**400},
        {"max_batch": 10**400},
        {"step_tokens": 10**400},
        {"snapshots": -1},
        {"snapshots": 1.0},
        {"max_waiting": -1},
        {"max_waiting": True},
        {"memory": 0},
        {"memory": 1e9},
    ],
)
def test_a_bad_engine_option_is_refused(tiny_folder: Path, options: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        LLM(tiny_folder, **options)


def test_progress_is_shown_on_the_standard_error_alone(llm: LLM, capfd: pytest.CaptureFixture[str]) -> None:
    plain = llm.generate(PROMPTS[:3], GREEDY)
    assert capfd.readouterr() == ("", "")
    shown = llm.generate(PROMPTS[:3], GREEDY, progress=True)
    out, err = capfd.readouterr()
    assert [r.token_ids for r in shown] == [r.token_ids for r in plain]
    assert out == ""
    assert "3/3" in err


def test_options_change_when_a_request_is_answered_and_never_what(tiny_folder: Path) -> None:
    llm = LLM(tiny_folder, max_batch=1, max_waiting=1, debug=True)
    plain = llm.generate("x", GREEDY)
    options = RequestOptions(priority=7, timeout=1000, cache_salt="mine")
    assert llm.generate("x", GREEDY, options=options).token_ids == plain.token_ids
    with pytest.raises(RequestError, match="ask for fewer at a time"):
        llm.generate(PROMPTS[:3], GREEDY)
    slow = SamplingParams.greedy(max_tokens=500)
    with pytest.raises(DeadlineError, match="when its time was up"):
        llm.generate("x", replace(slow, ignore_eos=True), options=RequestOptions(timeout=1e-6))
    assert llm.idle
    assert llm.stats().expired == 1
    long = llm.tokenizer.encode("The water comes a long way. ")
    three = SamplingParams.greedy(max_tokens=3)
    first = llm.generate(long, three, options=RequestOptions(cache_salt="a"))
    further = [*long, *first.token_ids, 5]
    for salt, cached in (("b", 0), ("", 0), ("a", len(long) + 2)):
        reply = llm.generate(further, three, options=RequestOptions(cache_salt=salt))
        assert reply.usage.cached_tokens == cached
    assert llm.idle


def test_an_open_checkpoint_is_used_as_it_is(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(write_tiny(tmp_path))
    llm = LLM(checkpoint)
    assert llm.checkpoint is checkpoint
    greedy = SamplingParams.greedy(max_tokens=3)
    assert llm.generate("hello", greedy).token_ids == LLM(tmp_path).generate("hello", greedy).token_ids
    for options in ({"revision": "main"}, {"offline": True}, {"offline": False}):
        with pytest.raises(RequestError, match="open"):
            LLM(checkpoint, **options)


def test_experts_are_refused_by_name_before_the_memory_is_weighed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_checkpoint(tmp_path, {}, moe=True)
    monkeypatch.setattr("qanat.engine.memory.available_bytes", lambda: 1)
    with pytest.raises(UnsupportedError, match="mixture-of-experts"):
        LLM(tmp_path)
