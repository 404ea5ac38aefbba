"""Trains the miniature: our own graph of it in float32, one cosine, averaged weights, one thread per process.

    python -m tools.pocket.train --tokenizer build/pocket --run build/pocket/run --minutes 60 --processes 2

Matrices learn with Muon, the rest (embedding, norms, convolutions, the two small projections of the delta
rule) with AdamW; the loss counts only what the assistant writes. Every process takes batches of its own, and
a step uses the mean over the learnt tokens of all of them. `--tokens N` instead of `--minutes` makes the run
a function of the seed and the number of processes. A file named STOP in the run folder ends it early and
cleanly. What it leaves there: log.txt, last.pt (raw weights) and ema.pt (their average, which gets exported).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import graph, parallel, shape, tokenizer
from .corpus.mix import LATE_FROM
from .data import Batch, batches
from .muon import Muon

MUON_RATE = 4e-3
ADAM_RATE = 3e-3
WARM_UP_STEPS = 100
LAST_RATE = 0.02  # of the peak, at the end of the cosine
CLIP = 1.0
FACTS = 4  # numbers that travel in front of the gradients

Weights = dict[str, torch.nn.Parameter]


@dataclass(frozen=True)
class Plan:
    """How long to train, and on how much at a time."""

    minutes: float | None
    tokens: int | None
    batch_tokens: int
    seed: int
    save_every: float  # seconds
    done_before: float = 0.0  # share of the whole training that an interrupted run had done

    def progress(self, seconds: float, tokens: int) -> float:
        """Done share of the training, 0 to 1; minutes and tokens are those of this run."""
        here = seconds / (60 * self.minutes) if self.minutes else tokens / (self.tokens or 1)
        return self.done_before + (1 - self.done_before) * here


def optimisers(weights: Weights, exchange: parallel.Exchange) -> list[torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for everything else."""
    small = ("embed_tokens", "in_proj_a", "in_proj_b")
    named = list(weights.items())
    matrices = [p for name, p in named if p.ndim == 2 and not any(part in name for part in small)]
    chosen = {id(p) for p in matrices}
    rest = [p for _, p in named if id(p) not in chosen]
    return [
        Muon(matrices, lr=MUON_RATE, exchange=exchange),
        torch.optim.AdamW(rest, lr=ADAM_RATE, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def rate_factor(step: int, progress: float) -> float:
    """Linear warm-up, then half a cosine down to LAST_RATE."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return min(1.0, step / WARM_UP_STEPS) * (LAST_RATE + (1 - LAST_RATE) * cosine)


class Average:
    """Exponential moving average of the weights; young averages move faster, so it is usable at any time."""

    def __init__(self, weights: Weights, decay: float = 0.998) -> None:
        self.decay, self.updates = decay, 0
        self.weights = {name: p.detach().clone() for name, p in weights.items()}

    def update(self, weights: Weights) -> None:
        """Take in the newest weights."""
        self.updates += 1
        share = 1 - min(self.decay, (1 + self.updates) / (10 + self.updates))
        with torch.no_grad():
            for name, p in weights.items():
                self.weights[name].lerp_(p, share)


class Log:
    """Prints lines and keeps them in log.txt; of several processes only the first speaks."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.file = (folder / "log.txt").open("a", encoding="utf-8") if rank == 0 else None

    def __call__(self, line: str) -> None:
        if self.file is None:
            return
        print(line, flush=True)
        self.file.write(line + "\n")
        self.file.flush()


@dataclass(frozen=True)
class Shared:
    """What all processes know after exchanging a step: its gradient is already in the parameters."""

    progress: float  # of the first process, which has the clock and the STOP file
    tokens: int
    learnt: int
    loss: float  # mean per learnt token


def exchange_gradients(
    exchange: parallel.Exchange,
    params: list[torch.nn.Parameter],
    progress: float,
    tokens: int,
    learnt: int,
    loss: float,
) -> Shared:
    """Replace every gradient by the mean over the learnt tokens of all processes."""
    facts = torch.tensor([progress, tokens, learnt, loss])
    flat = torch.cat([facts, *(p.grad.flatten() for p in params if p.grad is not None)])
    every = exchange.gather(flat)
    shares = every[:, 2] / every[:, 2].sum()
    mean = shares @ every[:, FACTS:]
    for p, part in zip(params, mean.split([p.numel() for p in params]), strict=True):
        p.grad = part.view_as(p)
    counts = every[:, 1:3].sum(0)
    return Shared(float(every[0, 0]), int(counts[0]), int(counts[1]), float(shares @ every[:, 3]))


def fit(
    exchange: parallel.Exchange,
    plan: Plan,
    weights: Weights,
    loss_of: Callable[[Batch], tuple[torch.Tensor, int]],
    tokenizer_folder: Path,
    run: Path,
) -> None:
    """Train `weights` on the mean loss that `loss_of` gives with its count of tokens, in every process."""
    log = Log(run, exchange.rank)
    params = list(weights.values())
    opts = optimisers(weights, exchange)
    peaks = [[group["lr"] for group in opt.param_groups] for opt in opts]
    average = Average(weights)
    log(
        f"{sum(p.numel() for p in params)} parameters, {exchange.processes} processes, "
        f"{json.dumps(vars(plan))}"
    )
    start = saved = time.monotonic()
    step = tokens = learnt = 0
    smooth = None

    def late() -> bool:
        return plan.progress(time.monotonic() - start, tokens) >= LATE_FROM

    vocabulary = tokenizer.load(tokenizer_folder)
    for batch in batches(vocabulary, plan.seed, plan.batch_tokens, exchange.rank, late):
        seconds = time.monotonic() - start
        progress = 1.0 if (run / "STOP").exists() else plan.progress(seconds, tokens)
        loss, count = loss_of(batch)
        loss.backward()
        shared = exchange_gradients(exchange, params, progress, batch.ids.size, count, loss.item())
        if shared.progress >= 1:
            break
        for opt, opt_peaks in zip(opts, peaks, strict=True):
            for group, peak in zip(opt.param_groups, opt_peaks, strict=True):
                group["lr"] = peak * rate_factor(step + 1, shared.progress)
        norm = torch.nn.utils.clip_grad_norm_(params, CLIP)
        for opt in opts:
            opt.step()
            opt.zero_grad()
        step += 1
        tokens += shared.tokens
        learnt += shared.learnt
        smooth = shared.loss if smooth is None else 0.98 * smooth + 0.02 * shared.loss
        if exchange.rank > 0:
            continue
        average.update(weights)
        if step % 50 == 0:
            log(
                f"step {step} {seconds:.0f} s {tokens / 1e6:.2f} M tokens {learnt / 1e6:.2f} M learnt "
                f"loss {smooth:.4f} norm {norm:.2f} {tokens / max(seconds, 1):.0f} tokens/s"
            )
        if time.monotonic() - saved > plan.save_every:
            saved = time.monotonic()
            save(weights, average, run)
    if exchange.rank == 0 and step > 0:
        save(weights, average, run)
    log(
        f"done: step {step} {time.monotonic() - start:.0f} s {tokens} tokens {learnt} learnt "
        f"loss {smooth if smooth is not None else math.nan:.4f}"
    )


def save(weights: Weights, average: Average, run: Path) -> None:
    """Write both states, each at once and whole."""
    for name, state in [("last.pt", weights), ("ema.pt", average.weights)]:
        partial = run / f"{name}.part"
        torch.save({key: value.detach().clone() for key, value in state.items()}, partial)
        partial.replace(run / name)


def train(
    exchange: parallel.Exchange, plan: Plan, tokenizer_folder: Path, run: Path, saved: Path | None
) -> None:
    """One run, from fresh or `saved` weights to `ema.pt`; every process calls this."""
    model = shape.fresh_model(plan.seed)
    weights = dict(model.named_parameters())
    if saved is not None:
        state = torch.load(saved, weights_only=True)
        if {name: p.shape for name, p in state.items()} != {name: p.shape for name, p in weights.items()}:
            raise SystemExit(f"{saved}: not the weights of the miniature; give last.pt or ema.pt of a run")
        model.load_state_dict(state, strict=False)  # the tied head is no entry
    fit(exchange, plan, weights, lambda batch: graph.loss_of(weights, batch), tokenizer_folder, run)


def options(description: str | None) -> argparse.ArgumentParser:
    """The options that say what to train on and for how long."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder with tokenizer.json")
    parser.add_argument("--run", type=Path, required=True, help="folder for the log and the weights")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float)
    length.add_argument("--tokens", type=int)
    parser.add_argument("--batch-tokens", type=int, default=3_072, help="of each process, per step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1, help="one thread each")
    parser.add_argument(
        "--done-before", type=float, default=0.0, help="share that an interrupted run had done"
    )
    parser.add_argument("--save-every", type=float, default=120, help="seconds")
    return parser


def start(args: argparse.Namespace, weights: Weights, work: Callable[..., None], *more: Any) -> None:
    """Call `work(exchange, plan, tokenizer folder, run folder, *more)` in every process.

    `weights` are those to be trained, for their size.
    """
    if not 0 <= args.done_before < 1:
        raise SystemExit(f"--done-before must be from 0 to below 1, not {args.done_before}")
    if (args.tokens if args.minutes is None else args.minutes) <= 0:
        raise SystemExit("--minutes or --tokens must be more than 0")
    if (args.run / "STOP").exists():
        raise SystemExit(
            f"{args.run / 'STOP'} lies there from an earlier run: delete it, or name another --run"
        )
    torch.set_num_threads(1)
    args.run.mkdir(parents=True, exist_ok=True)
    plan = Plan(args.minutes, args.tokens, args.batch_tokens, args.seed, args.save_every, args.done_before)
    numbers = FACTS + sum(p.numel() for p in weights.values())
    parallel.run(args.processes, numbers, work, plan, args.tokenizer, args.run, *more)


def main() -> None:
    """Read the options and train."""
    parser = options(__doc__)
    parser.add_argument("--weights", type=Path, help="last.pt of an interrupted run, to go on from")
    args = parser.parse_args()
    start(args, dict(shape.fresh_model(args.seed).named_parameters()), train, args.weights)


if __name__ == "__main__":
    main()
