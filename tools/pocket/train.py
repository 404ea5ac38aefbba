"""Trains the miniature: transformers' own graph in float32, one thread, one cosine, averaged weights.

    python -m tools.pocket.train --tokenizer build/pocket --run build/pocket/run --minutes 60

Matrices learn with Muon, the rest (embedding, norms, convolutions, the two small projections of the delta
rule) with AdamW; the loss counts only what the assistant writes. `--tokens N` instead of `--minutes` makes
the run a function of the seed alone. A file named STOP in the run folder ends it early and cleanly. What it
leaves there: log.txt, last.pt (raw weights) and ema.pt (their average, which is what gets exported).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers.models.qwen3_5 import modeling_qwen3_5

from . import shape, tokenizer
from .data import MULTIPLE, Batch, batches
from .muon import Muon

MUON_RATE = 4e-3
ADAM_RATE = 3e-3
WARM_UP_STEPS = 100
LAST_RATE = 0.02  # of the peak, at the end of the cosine
CLIP = 1.0


@dataclass(frozen=True)
class Plan:
    """How long to train, and on how much at a time."""

    minutes: float | None
    tokens: int | None
    batch_tokens: int
    seed: int
    save_every: float  # seconds

    def progress(self, seconds: float, tokens: int) -> float:
        """Done share of the run, 0 to 1."""
        return seconds / (60 * self.minutes) if self.minutes else tokens / (self.tokens or 1)


def use_short_chunks() -> None:
    """Let the delta rule work in chunks of 32 tokens: the same mathematics, faster for short rows."""
    whole = modeling_qwen3_5.torch_chunk_gated_delta_rule

    def chunked(*args: Any, **kwargs: Any) -> Any:
        return whole(*args, **{**kwargs, "chunk_size": MULTIPLE})

    modeling_qwen3_5.torch_chunk_gated_delta_rule = chunked


def optimisers(model: torch.nn.Module) -> list[torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for everything else."""
    small = ("embed_tokens", "in_proj_a", "in_proj_b")
    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.ndim == 2 and not any(part in name for part in small)]
    chosen = {id(p) for p in matrices}
    rest = [p for _, p in named if id(p) not in chosen]
    return [
        Muon(matrices, lr=MUON_RATE),
        torch.optim.AdamW(rest, lr=ADAM_RATE, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def rate_factor(step: int, progress: float) -> float:
    """Linear warm-up, then half a cosine down to LAST_RATE."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return min(1.0, step / WARM_UP_STEPS) * (LAST_RATE + (1 - LAST_RATE) * cosine)


def loss_of(model: Any, batch: Batch) -> torch.Tensor:
    """Mean cross entropy of the learnt tokens; logits are computed only where they are needed."""
    ids, learnt = torch.from_numpy(batch.ids), torch.from_numpy(batch.learnt)
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state  # [rows, length, H]
    wanted = learnt[:, 1:]
    logits = model.lm_head(hidden[:, :-1][wanted])  # [n, V]
    return torch.nn.functional.cross_entropy(logits, ids[:, 1:][wanted])


class Average:
    """Exponential moving average of the weights; young averages move faster, so it is usable at any time."""

    def __init__(self, model: torch.nn.Module, decay: float = 0.998) -> None:
        self.decay, self.updates = decay, 0
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model: torch.nn.Module) -> None:
        """Take in the newest weights."""
        self.updates += 1
        share = 1 - min(self.decay, (1 + self.updates) / (10 + self.updates))
        with torch.no_grad():
            for name, p in model.named_parameters():
                self.weights[name].lerp_(p, share)


class Log:
    """Prints lines and keeps them in log.txt."""

    def __init__(self, folder: Path) -> None:
        self.file = (folder / "log.txt").open("a", encoding="utf-8")

    def __call__(self, line: str) -> None:
        print(line, flush=True)
        self.file.write(line + "\n")
        self.file.flush()


def train(plan: Plan, tokenizer_folder: Path, run: Path) -> None:
    """One run, from fresh weights to `ema.pt`."""
    run.mkdir(parents=True, exist_ok=True)
    log = Log(run)
    use_short_chunks()
    model = shape.fresh_model(plan.seed).train()
    opts = optimisers(model)
    peaks = [[group["lr"] for group in opt.param_groups] for opt in opts]
    average = Average(model)
    log(f"{sum(p.numel() for p in model.parameters())} parameters, {json.dumps(vars(plan))}")
    start = saved = time.monotonic()
    step = tokens = learnt = 0
    smooth = None
    for batch in batches(tokenizer.load(tokenizer_folder), plan.seed, plan.batch_tokens):
        seconds = time.monotonic() - start
        progress = plan.progress(seconds, tokens)
        if progress >= 1 or (run / "STOP").exists():
            break
        for opt, opt_peaks in zip(opts, peaks, strict=True):
            for group, peak in zip(opt.param_groups, opt_peaks, strict=True):
                group["lr"] = peak * rate_factor(step + 1, progress)
        loss = loss_of(model, batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for opt in opts:
            opt.step()
            opt.zero_grad()
        average.update(model)
        step += 1
        tokens += batch.ids.size
        learnt += int(batch.learnt.sum())
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        if step % 50 == 0:
            log(
                f"step {step} {seconds:.0f} s {tokens / 1e6:.2f} M tokens {learnt / 1e6:.2f} M learnt "
                f"loss {smooth:.4f} norm {norm:.2f} {tokens / max(seconds, 1):.0f} tokens/s"
            )
        if time.monotonic() - saved > plan.save_every:
            saved = time.monotonic()
            save(model, average, run)
    save(model, average, run)
    log(
        f"done: step {step} {time.monotonic() - start:.0f} s {tokens} tokens {learnt} learnt "
        f"loss {smooth:.4f}"
    )


def save(model: torch.nn.Module, average: Average, run: Path) -> None:
    """Write both states, each at once and whole."""
    for name, state in [("last.pt", dict(model.named_parameters())), ("ema.pt", average.weights)]:
        partial = run / f"{name}.part"
        torch.save({key: value.detach().clone() for key, value in state.items()}, partial)
        partial.replace(run / name)


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder with tokenizer.json")
    parser.add_argument("--run", type=Path, required=True, help="folder for the log and the weights")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float)
    length.add_argument("--tokens", type=int)
    parser.add_argument("--batch-tokens", type=int, default=3_072)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save-every", type=float, default=120, help="seconds")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    plan = Plan(args.minutes, args.tokens, args.batch_tokens, args.seed, args.save_every)
    train(plan, args.tokenizer, args.run)


if __name__ == "__main__":
    main()
