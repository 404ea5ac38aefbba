"""Trains the layer for multi-token prediction behind a finished trunk, which stays as it is.

    python -m tools.pocket.train_mtp --weights build/pocket/run/ema.pt --tokenizer build/pocket \\
        --run build/pocket/mtp --minutes 10 --processes 2

The same data, loss positions, optimisers and options as train.py; the run folder gets the same files, holding
the `mtp.*` tensors alone.
"""

from __future__ import annotations

from pathlib import Path

import torch

from . import parallel
from .mtp import fresh_mtp, mtp_loss_of
from .train import Plan, fit, options, start


def train_mtp(
    exchange: parallel.Exchange, plan: Plan, tokenizer_folder: Path, run: Path, trunk: Path
) -> None:
    """One run, from fresh weights to `ema.pt`; every process calls this."""
    frozen = torch.load(trunk, weights_only=True)
    mtp = fresh_mtp(plan.seed)
    fit(exchange, plan, mtp, lambda batch: mtp_loss_of(frozen, mtp, batch), tokenizer_folder, run)


def main() -> None:
    """Read the options and train."""
    parser = options(__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="the trunk, a state dict from train.py")
    args = parser.parse_args()
    start(args, fresh_mtp(args.seed), train_mtp, args.weights)


if __name__ == "__main__":
    main()
