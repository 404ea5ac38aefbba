"""A process that starts, answers and tells what it took.

    python -m qanat.bench.start MODEL WEIGHTS THREADS PROMPT

Of its own, because only a fresh process loads anything, and because a peak of memory belongs to a process.
The weights are packed already when it runs, and their files in the system's cache: it maps what a second
start would map.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["REPLY", "Start", "measure_start"]

GREETING = 16
"""Tokens of the prompt whose reply's first token is waited for."""
REPLY = 8
"""Tokens that answer the long prompt."""


@dataclass(frozen=True)
class Start:
    """What a start took."""

    load_seconds: float
    """From `LLM(...)` to the first token of a reply to a short prompt; Numba's import included."""
    process_seconds: float
    """The same from the start of the process."""
    peak_bytes: int
    """The most memory that the process held, after a long prompt and a few tokens."""
    weights_bytes: int
    """Packed weights."""
    state_bytes: int
    """Recurrent state, and keys and values, of the one sequence."""

    @property
    def over_bytes(self) -> int:
        """What was held beyond weights and state: Python, libraries, tokenizer, code, activations."""
        return self.peak_bytes - self.weights_bytes - self.state_bytes


def measure_start(model: str, weights: str, threads: int, prompt: int) -> Start:
    """Run this module as a process.

    Args:
        model: a folder, or "pocket".
        weights: "int8" or "bf16".
        threads: how many compute.
        prompt: tokens of the long prompt.
    """
    begun = time.perf_counter()
    arguments = ["-m", "qanat.bench.start", model, weights, str(threads), str(prompt)]
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        seconds = time.perf_counter() - begun
        rest = process.stdout.read()
    if process.returncode:
        raise RuntimeError(f"the process that measures a start failed with {process.returncode}")
    return Start(process_seconds=seconds, **json.loads(first), **json.loads(rest))


def main(model: str, weights: str, threads: int, prompt: int) -> None:
    """Print two lines of JSON: after the first token, and at the end."""
    begun = time.perf_counter()
    from qanat.engine import LLM, SamplingParams

    length = prompt + REPLY
    llm = LLM(
        model,
        backend="cpu",
        weights=weights,
        threads=threads,
        max_batch=1,
        max_model_len=max(length, GREETING + 1),
    )
    one = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)
    llm.generate([1] * GREETING, one)
    print(json.dumps({"load_seconds": time.perf_counter() - begun}), flush=True)
    llm.generate([1] * prompt, SamplingParams(temperature=0, max_tokens=REPLY, ignore_eos=True))
    from qanat.engine.memory import estimate

    held = estimate(llm.config, weights, length, 1, backend="cpu")
    state = held.state + held.keys_values
    print(json.dumps({"peak_bytes": _peak(), "weights_bytes": held.weights, "state_bytes": state}))


def _peak() -> int:
    """Bytes. Linux's `getrusage` counts the parent's memory too, where a child shared it before it began."""
    try:
        with Path("/proc/self/status").open() as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) * 1024
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
