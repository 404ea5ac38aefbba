"""qanat beside llama.cpp and transformers, in one run: interleaved rounds, medians, the machine's ceilings.

    make peers
    .venv/bin/python benchmarks/compare.py MODEL --sides qanat-int8,llama-q8_0 --what decode,prefill

MODEL is a checkpoint folder, or a published size ("0.8B", "2B", ...), of which a checkpoint with random
weights is then made in build/bench. Every side is a process of its own that measures itself (peers/side.py);
all but the one whose turn it is are stopped. Name only sides whose weights fit into memory together.

decode       tokens after one another, of one sequence
batch8       of eight sequences at once; tok/s of all together
context16k   of one sequence with a long past. qanat's past is made of random keys and values, the others read
             16384 tokens first, which takes them minutes
prefill      a prompt, from nothing
load         a fresh process, its files in the system's cache, from opening the model to a first token;
             imports of torch and Numba included, transformers' tokenizer not

GB/s are bytes that must be read: weights once a step, recurrent matrices, keys and values, as each side
stores them. Gop/s are multiplications and additions of the linear layers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks.peers.gguf import PARITY, PEERS, q8_0  # noqa: E402
from benchmarks.peers.rounds import Row, measure_loads, measure_row, ratios  # noqa: E402
from benchmarks.peers.worker import Worker, WorkerError  # noqa: E402
from qanat.backends.cpu.ceilings import Ceilings, measure_ceilings  # noqa: E402
from qanat.backends.cpu.threads import physical_cores  # noqa: E402
from qanat.bench.steps import bytes_read, operations  # noqa: E402
from qanat.checkpoint.config import ModelConfig, TextConfig  # noqa: E402
from qanat.errors import QanatError  # noqa: E402

HERE = Path(__file__).resolve().parent
STORED = {
    "qanat-int8": (34 / 32, 2),
    "llama-q8_0": (34 / 32, 2),
    "qanat-bf16": (2, 4),
    "transformers-bf16": (2, 2),
}
"""Side -> bytes of a weight, scales included, and of a key or value."""
WHAT = ("decode", "batch8", "context16k", "prefill", "load")


def checkpoint_folder(model: str) -> Path:
    """The folder that was named, or one made for a size."""
    from tools.published_sizes import SIZES

    if Path(model).is_dir():
        return Path(model).resolve()
    if model not in SIZES:
        raise SystemExit(f"{model} is neither a folder nor one of the sizes {', '.join(SIZES)}")
    folder = ROOT / "build" / "bench" / model
    if not list(folder.glob("*.safetensors")):
        make = [sys.executable, ROOT / "tools" / "make_checkpoint.py", "--size", model, folder]
        subprocess.run(make, check=True)
    return folder


def starter(side: str, folder: Path, threads: int) -> Callable[[], Worker]:
    """What starts a side's process; files that it needs are made here."""
    engine, _, mode = side.partition("-")
    if engine == "qanat":
        command = [sys.executable, str(HERE / "qanat_worker.py"), str(folder), mode, str(threads)]
        return lambda: Worker(command, path=ROOT / "src")
    python, script, file = PARITY, "transformers_worker.py", folder
    if engine == "llama":
        python, script, file = PEERS, "llama_worker.py", q8_0(folder, threads)
    if not python.is_file():
        raise SystemExit(f"{python} is missing: run `make peers`")
    command = [str(python), str(HERE / "peers" / script), str(file), str(threads)]
    return lambda: Worker(command)


def summary(
    row: Row, taken: dict[str, list[float]], config: TextConfig, ceilings: Ceilings, threads: int
) -> dict[str, Any]:
    """What a row's rounds come to, side by side."""
    found: dict[str, Any] = {}
    for side, seconds in taken.items():
        median = statistics.median(seconds)
        figures = {"seconds": seconds, "tokens_per_second": row.all_tokens / median}
        weight, key_value = STORED[side]
        if row.at_once:
            rate = operations(config, row.tokens) / median / 1e9
            limit = (ceilings.f32_gop_s if weight == 2 else ceilings.int8_gop_s)[threads]
            figures |= {"gop_per_second": rate, "share_of_ceiling": rate / limit}
        else:
            step = bytes_read(config, weight, key_value, row.context, row.count)
            rate = step * row.tokens / median / 1e9
            figures |= {"gb_per_second": rate, "share_of_ceiling": rate / ceilings.best_read_gb_s}
        found[side] = figures
    return {**asdict(row), "sides": found, "ratios": ratios(taken), "ceilings": asdict(ceilings)}


def add_ceilings(ceilings: list[Ceilings], threads: int) -> None:
    """Measure the machine once more."""
    ceilings.append(measure_ceilings(threads, rounds=1))


def print_row(name: str, found: dict[str, Any]) -> None:
    """A row's table."""
    print(f"\n{name:<20}{'tok/s':>10}{'GB/s':>9}{'Gop/s':>9}{'of the ceiling':>16}")
    for side, figures in found["sides"].items():
        gb, gop = (figures.get(key) for key in ("gb_per_second", "gop_per_second"))
        print(
            f"{side:<20}{figures['tokens_per_second']:>10.2f}{'' if gb is None else f'{gb:.2f}':>9}"
            f"{'' if gop is None else f'{gop:.1f}':>9}{figures['share_of_ceiling']:>16.0%}"
        )
    for pair, value in found["ratios"].items():
        print(f"  {pair}: {value:.2f}")


def print_loads(loads: dict[str, Any]) -> None:
    """The table of starts."""
    print(f"\n{'load':<20}{'seconds':>10}{'peak GB':>9}")
    for side, figures in loads.items():
        print(f"{side:<20}{figures['median_seconds']:>10.2f}{figures['peak_bytes'] / 1e9:>9.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", help="folder or size")
    parser.add_argument("--sides", default="qanat-int8,llama-q8_0", help=", ".join(STORED))
    parser.add_argument("--what", default="decode,prefill", help=", ".join(WHAT))
    parser.add_argument("--threads", type=int, default=physical_cores())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=16, help="tokens decoded in a round")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the prompt")
    parser.add_argument("--context", type=int, default=16384, help="tokens of the long past")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure")
    given = parser.parse_args()
    sides, what = given.sides.split(","), given.what.split(",")
    for name, known in ((sides, STORED), (what, WHAT)):
        if not set(name) <= set(known):
            parser.error(f"choose from {', '.join(known)}")
    try:
        run(given, sides, what)
    except (QanatError, WorkerError) as error:
        raise SystemExit(f"error: {error}") from None


def run(given: argparse.Namespace, sides: list[str], what: list[str]) -> None:
    """Measure, print, write."""
    folder = checkpoint_folder(given.model)
    config = ModelConfig.from_file(folder / "config.json").text
    starts = {side: starter(side, folder, given.threads) for side in sides}
    rows = {
        "decode": Row(given.steps),
        "batch8": Row(given.steps, count=8),
        "context16k": Row(given.steps, context=given.context),
        "prefill": Row(given.prompt, at_once=True),
    }
    result: dict[str, Any] = {
        "model": str(folder),
        "threads": given.threads,
        "rounds": given.rounds,
        "rows": {},
    }
    workers: dict[str, Worker] = {}
    try:
        if set(what) & set(rows):
            for side, start in starts.items():
                workers[side] = start()
                result.setdefault("sides", {})[side] = about = workers[side].ask("load")
                print(
                    f"{side}: {about['version']}, {about['bytes'] / 1e9:.2f} GB of weights", file=sys.stderr
                )
        for name in (name for name in WHAT if name in what and name in rows):
            print(f"measuring {name}", file=sys.stderr)
            ceilings: list[Ceilings] = []
            taken = measure_row(
                rows[name], workers, given.rounds, partial(add_ceilings, ceilings, given.threads)
            )
            result["rows"][name] = summary(
                rows[name], taken, config, Ceilings.medians(ceilings), given.threads
            )
            print_row(name, result["rows"][name])
    finally:
        for worker in workers.values():
            worker.close()
    if "load" in what:
        print("measuring load", file=sys.stderr)
        result["load"] = {
            side: {"seconds": seconds, "median_seconds": statistics.median(seconds), "peak_bytes": max(peaks)}
            for side, (seconds, peaks) in measure_loads(starts, given.rounds).items()
        }
        print_loads(result["load"])
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
