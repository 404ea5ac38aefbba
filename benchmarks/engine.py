"""The engine with many requests: how near it comes to the bare model's rates, and llama.cpp in the same run.

    make peers
    .venv/bin/python benchmarks/engine.py MODEL

batch        requests that arrive together, prompts of random tokens, replies of a fixed length. Ideal is the
             time that the bare model needs for as many prompt tokens at its own rate, and output tokens at
             its rate with that many sequences
llama        the same by llama.cpp's batch interface: prompts one after the other, then all decode together
second turn  a chat with a long history is continued: the time to the first token beside that of a prompt of
             nothing but the tokens that were read again
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks.compare import checkpoint_folder, starter  # noqa: E402
from benchmarks.peers.worker import Worker, WorkerError  # noqa: E402
from qanat import LLM, QanatError, RequestOptions, SamplingParams  # noqa: E402
from qanat.backends.cpu.threads import physical_cores  # noqa: E402
from qanat.bench.steps import Sequences  # noqa: E402
from qanat.engine.memory import STEP_TOKENS  # noqa: E402


def fixed(tokens: int) -> SamplingParams:
    """A reply of exactly so many tokens."""
    return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)


def seconds(do: Any) -> float:
    """How long a call takes."""
    begin = time.perf_counter()
    do()
    return time.perf_counter() - begin


def ideal(llm: LLM, given: argparse.Namespace) -> float:
    """Seconds that the bare model needs for all prompts and all replies."""
    model = llm._scheduler._model
    alone = Sequences(model, 1, 0, given.prompt)  # type: ignore[arg-type]
    crowd = Sequences(model, given.requests, given.prompt, given.output)  # type: ignore[arg-type]
    read = seconds(lambda: alone.read(given.prompt, STEP_TOKENS))
    return given.requests * read + seconds(lambda: crowd.read(given.output, 1))


def batch(
    llm: LLM, peer: Worker | None, given: argparse.Namespace, rng: np.random.Generator
) -> dict[str, Any]:
    """Rounds of bare model, engine and llama.cpp by turns."""
    taken: dict[str, list[float]] = {"ideal": [], "qanat": [], "llama": []}
    scheduling: list[float] = []
    for round in range(given.rounds + 1):
        prompts = rng.integers(1000, 50_000, (given.requests, given.prompt)).tolist()
        found = {"ideal": ideal(llm, given)}
        before = llm.stats()
        found["qanat"] = seconds(lambda prompts=prompts: llm.generate(prompts, fixed(given.output)))
        after = llm.stats()
        if peer is not None:
            peer.ask("prepare", count=given.requests, context=0, room=given.prompt + given.output)
            found["llama"] = peer.ask("read", tokens=given.prompt)["seconds"]
            found["llama"] += peer.ask("decode", steps=given.output)["seconds"]
        if round:  # the first warms up
            scheduling.append((after.scheduling - before.scheduling) / (after.steps - before.steps))
            for name, value in found.items():
                taken[name].append(value)
    tokens = given.requests * (given.prompt + given.output)
    result: dict[str, Any] = {
        "seconds": taken,
        "tokens_per_second": tokens / statistics.median(taken["qanat"]),
        "of_ideal": statistics.median(q / i for q, i in zip(taken["qanat"], taken["ideal"], strict=True)),
        "scheduling_ms_per_step": 1e3 * statistics.median(scheduling),
    }
    if peer is not None:
        pairs = zip(taken["llama"], taken["qanat"], strict=True)
        result["qanat / llama.cpp"] = statistics.median(x / q for x, q in pairs)
    return result


def first_token(stream: Any) -> float:
    """Seconds until a stream has its first token; the stream is closed then."""
    begin = time.perf_counter()
    next(stream)
    taken = time.perf_counter() - begin
    stream.close()
    return taken


def second_turn(llm: LLM, given: argparse.Namespace, rng: np.random.Generator) -> dict[str, Any]:
    """A conversation with a long history goes on."""
    rows = []
    for _ in range(given.rounds + 1):
        words = llm.tokenizer.decode(rng.integers(1000, 50_000, given.history).tolist())
        messages = [{"role": "user", "content": words}]
        reply = llm.chat(messages, fixed(64))
        messages += [{"role": "assistant", "content": reply.text}, {"role": "user", "content": "And then?"}]
        cached = llm.stats().cached_tokens
        continued = first_token(llm.chat(messages, fixed(1), stream=True))
        spared = llm.stats().cached_tokens - cached
        begin = time.perf_counter()
        prompt = llm.tokenizer.encode(llm.template.render(messages, add_generation_prompt=True))
        text = time.perf_counter() - begin
        fresh = RequestOptions(cache_salt="fresh")  # the same tokens as were read again, with nothing before
        alone = first_token(llm.generate(prompt[spared:], fixed(1), stream=True, options=fresh))
        rows.append((continued, alone, len(prompt), len(prompt) - spared, text))
    rows = rows[1:]
    return {
        "prompt_tokens": rows[-1][2],
        "read_again": rows[-1][3],
        "seconds": [row[0] for row in rows],
        "alone": [row[1] for row in rows],
        "text_seconds": [row[4] for row in rows],
        "ratio": statistics.median(row[0] / row[1] for row in rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", help="folder or size")
    parser.add_argument("--weights", default="int8", help="int8 or bf16")
    parser.add_argument("--threads", type=int, default=physical_cores())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--output", type=int, default=64)
    parser.add_argument("--history", type=int, default=2000)
    parser.add_argument("--no-llama", action="store_true", help="leave llama.cpp out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure")
    given = parser.parse_args()
    peer = None
    try:
        folder = checkpoint_folder(given.model)
        if not given.no_llama:
            peer = starter("llama-q8_0", folder, given.threads)()
            peer.ask("load")
        llm = LLM(
            folder, weights=given.weights, threads=given.threads, max_batch=given.requests, max_model_len=4096
        )
        rng = np.random.default_rng(0)
        result = {"batch": batch(llm, peer, given, rng), "second turn": second_turn(llm, given, rng)}
    except (QanatError, WorkerError) as error:
        raise SystemExit(f"error: {error}") from None
    finally:
        if peer is not None:
            peer.close()
    row = result["batch"]
    print(
        f"{given.requests} requests, {given.prompt} tokens in, {given.output} out: "
        f"{row['tokens_per_second']:.0f} tok/s"
    )
    print(
        f"  {row['of_ideal']:.2f} times the ideal time; "
        f"{row['scheduling_ms_per_step']:.2f} ms of scheduling a step"
    )
    if peer is not None:
        print(f"  {row['qanat / llama.cpp']:.2f} times llama.cpp's throughput")
    row = result["second turn"]
    print(
        f"second turn of {row['prompt_tokens']} tokens, {row['read_again']} of them read again: "
        f"first token after {statistics.median(row['seconds']):.2f} s, "
        f"{row['ratio']:.2f} times those tokens alone; rendering and encoding the whole conversation is "
        f"{1e3 * statistics.median(row['text_seconds']):.0f} ms of it"
    )
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
