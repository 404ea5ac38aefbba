"""transformers as a side of `compare.py`: torch in bfloat16, its own cache. Runs in .venv-parity."""

from __future__ import annotations

import sys
from typing import Any

from side import serve


class Transformers:
    """A model folder and a number of threads."""

    def __init__(self, path: str, threads: int) -> None:
        self.path, self.threads = path, threads

    def load(self) -> dict[str, Any]:
        import torch
        import transformers

        torch.set_num_threads(self.threads)
        torch.set_grad_enabled(False)
        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        self.torch, self.cache_class = torch, transformers.DynamicCache
        self.model = transformers.AutoModelForCausalLM.from_pretrained(self.path, dtype=torch.bfloat16).eval()
        size = sum(p.numel() * p.element_size() for p in self.model.parameters())
        version = f"transformers {transformers.__version__}, torch {torch.__version__}"
        return {"bytes": size, "version": version}

    def first(self) -> None:
        self.load()
        self.prepare(1, 0, 0)
        self.read(16)

    def prepare(self, count: int, context: int, room: int) -> None:
        self.cache = self.cache_class(config=self.model.config)
        self.count = count
        self.token = self.torch.full((count, 1), 1000)
        if context:
            self.read(context)

    def read(self, tokens: int) -> None:
        ids = self.torch.arange(1000, 1000 + tokens).remainder(self.model.config.vocab_size)
        self._compute(ids.expand(self.count, tokens))

    def decode(self, steps: int) -> None:
        for _ in range(steps):
            self._compute(self.token)

    def _compute(self, ids: Any) -> None:
        out = self.model(input_ids=ids, cache=self.cache, use_cache=True, logits_to_keep=1)
        self.token = out.logits[:, -1:].argmax(-1)


if __name__ == "__main__":
    serve(Transformers(sys.argv[1], int(sys.argv[2])))
