"""How fast text becomes token ids, beside Hugging Face's tokenizers: medians of five, ratios in one run.

.venv/bin/python benchmarks/tokenizer.py
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from qanat import Tokenizer
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


if __name__ == "__main__":
    bench_tokenizer()
