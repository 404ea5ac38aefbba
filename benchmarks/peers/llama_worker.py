"""llama.cpp as a side of `compare.py`, through the C interface that llama-cpp-python exposes.

Its own defaults: batches of 512 tokens, keys and values in float16, flash attention where it helps, the file
mapped. Runs in .venv-peers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from ctypes import c_void_p
from typing import Any

from side import serve

CHUNK = 512
"""Tokens given at once, llama.cpp's own micro-batch."""


class Llama:
    """A GGUF file and a number of threads."""

    def __init__(self, path: str, threads: int) -> None:
        self.path, self.threads = path, threads
        self.context: Any = None

    def load(self) -> dict[str, Any]:
        import llama_cpp

        self.api = llama_cpp
        self.quiet = llama_cpp.llama_log_callback(_quiet)
        llama_cpp.llama_log_set(self.quiet, c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            self.path.encode(), llama_cpp.llama_model_default_params()
        )
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {self.path}")
        return {
            "bytes": llama_cpp.llama_model_size(self.model),
            "version": f"llama-cpp-python {llama_cpp.__version__}; "
            + llama_cpp.llama_print_system_info().decode().strip(),
        }

    def first(self) -> None:
        self.load()
        self.prepare(1, 0, 256)
        self.read(16)
        vocabulary = self.api.llama_vocab_n_tokens(self.api.llama_model_get_vocab(self.model))
        logits = self.api.llama_get_logits_ith(self.context, -1)
        max(range(vocabulary), key=logits[:vocabulary].__getitem__)

    def prepare(self, count: int, context: int, room: int) -> None:
        api = self.api
        if self.context:
            api.llama_free(self.context)
        each = -(-(context + room) // 256) * 256  # the granularity of its cache
        params = api.llama_context_default_params()
        params.n_ctx = each * count
        params.n_seq_max = count
        params.n_threads = params.n_threads_batch = self.threads
        params.no_perf = True
        self.context = api.llama_init_from_model(self.model, params)
        if not self.context:
            raise SystemExit(f"llama.cpp cannot make a context of {count} x {each} tokens")
        self.count, self.length = count, 0
        self.batch = api.llama_batch_init(max(CHUNK, count), 0, 1)
        if context:
            self.read(context)

    def read(self, tokens: int) -> None:
        for begin in range(0, tokens, CHUNK):
            size = min(CHUNK, tokens - begin)
            last = begin + size == tokens
            for sequence in range(self.count):
                entries = ((sequence, self.length + i, last and i == size - 1) for i in range(size))
                self._compute(entries)
            self.length += size

    def decode(self, steps: int) -> None:
        for _ in range(steps):
            self._compute((sequence, self.length, True) for sequence in range(self.count))
            self.length += 1

    def _compute(self, entries: Iterable[tuple[int, int, bool]]) -> None:
        """One batch of (sequence, position, whether its logits are wanted)."""
        batch, n = self.batch, 0
        for n, (sequence, position, wanted) in enumerate(entries, 1):
            batch.token[n - 1] = 1000 + position % 997
            batch.pos[n - 1] = position
            batch.n_seq_id[n - 1] = 1
            batch.seq_id[n - 1][0] = sequence
            batch.logits[n - 1] = wanted
        batch.n_tokens = n
        code = self.api.llama_decode(self.context, batch)
        if code:
            raise SystemExit(f"llama_decode failed with {code}")
        self.api.llama_synchronize(self.context)


def _quiet(level: int, text: bytes, data: Any) -> None:
    """llama.cpp's log lines go nowhere."""


if __name__ == "__main__":
    serve(Llama(sys.argv[1], int(sys.argv[2])))
