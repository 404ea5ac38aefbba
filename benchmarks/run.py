"""`make bench`: how fast each part is, beside the limit it could reach. Medians of five, ratios in one run.

.venv/bin/python benchmarks/run.py [--model MODEL] [--tokens N]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from itertools import repeat
from pathlib import Path

import numpy as np

from qanat import LLM, SamplingParams, Tokenizer
from qanat.text.vocabulary import real_tokenizer_folder

REPEATS = 5


def median_seconds(work: Callable[[], object]) -> float:
    """Median of REPEATS runs after one to warm up."""
    work()
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def memory_bandwidth() -> float:
    """GB/s of one thread reading float32 numbers: what a matrix-vector product cannot exceed."""
    numbers = np.ones(64 << 20, np.float32)
    return numbers.nbytes / median_seconds(numbers.max) / 1e9


def sample_texts() -> dict[str, str]:
    """About 400 kB each; made here, so that nothing is downloaded."""
    library = Path(os.__file__).parent
    code = "".join(
        (library / f"{name}.py").read_text() for name in ("argparse", "typing", "tarfile", "inspect")
    )
    words = (
        "water finds its way through the long dark channel and reaches the garden before the sun is high; "
        "nobody who drinks there asks how many hands have dug, or how deep the mother well goes down. "
    )
    han = "水从山里来，经过很长的暗渠，在太阳升高之前流到花园。没有人问有多少双手挖过，也没有人问母井有多深。"
    mixed = "Größe, naïve, сколько, ελληνικά, עברית, مرحبا, हिन्दी, 한국어, 日本語, 🦄👩‍👩‍👧 12,345.67\n"
    return {
        "english": words * 2100,
        "code": code[:400_000],
        "chinese": han * 2600,
        "mixed scripts": mixed * 3400,
    }


def bench_tokenizer() -> None:
    """MB/s beside Hugging Face's tokenizers, one thread, 8 kB documents. The prose repeats its words, which
    flatters whoever caches pieces; the code does not.
    """
    import tokenizers

    folder = real_tokenizer_folder()
    ours, theirs = (
        Tokenizer.from_folder(folder),
        tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")),
    )
    print(f"\n{'tokenizer, MB/s':<24}{'qanat':>8}{'tokenizers':>12}{'ratio':>8}")
    for name, text in sample_texts().items():
        documents = [text[i : i + 8000] for i in range(0, len(text), 8000)]
        megabytes = len(text.encode()) / 1e6
        a = megabytes / median_seconds(lambda d=documents: [ours.encode(x) for x in d])
        b = megabytes / median_seconds(lambda d=documents: [theirs.encode(x) for x in d])
        print(f"{name:<24}{a:>8.2f}{b:>12.2f}{a / b:>8.2f}")


def bench_model(model: str, tokens: int) -> None:
    """Prefill and decode tok/s, alone and eight at once, with the bytes of weights that each second needs."""
    llm = LLM(model, max_batch=8)
    rng = np.random.default_rng(0)
    live = min(1000, len(llm.tokenizer))
    prompt = [int(i) for i in rng.integers(0, live, 128)]
    once = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)
    many = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
    read = llm.config.text.num_parameters * 4 / 1e9  # float32
    print(f"\n{model}: {read:.3f} GB of float32 weights for each step")
    prefill = median_seconds(lambda: llm.generate(prompt, once))
    print(f"prefill of 128 tokens   {128 / prefill:>8.1f} tok/s")
    for batch in (1, 8):
        prompts = list(repeat(prompt, batch))
        both = median_seconds(lambda p=prompts: llm.generate(p, many))
        first = median_seconds(lambda p=prompts: llm.generate(p, once))
        step = (both - first) / (tokens - 1)
        print(f"decode, {batch} at once        {batch / step:>8.1f} tok/s  {read / step:>6.2f} GB/s")


def main(argv: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="pocket", help="folder, hub id or pocket")
    parser.add_argument("--tokens", type=int, default=64, help="tokens to decode")
    args = parser.parse_args(list(argv) if argv is not None else None)
    versions = f"NumPy {np.__version__}, Python {platform.python_version()}"
    print(f"{platform.machine()}, {os.cpu_count()} cores, {versions}")
    print(f"one thread reads {memory_bandwidth():.1f} GB/s")
    bench_tokenizer()
    bench_model(args.model, args.tokens)


if __name__ == "__main__":
    main()
