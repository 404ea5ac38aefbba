"""How many users fit into how much memory, by the planner that the engine uses: the table of docs/serving.md.

    python tools/memory_table.py

A user is a sequence with a whole context of its own and one kept prefix, so that the next turn of its
conversation reads only what is new. Weights are int8 on the CPU backend, as `--weights auto` chooses.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from qanat.checkpoint.config import ModelConfig, TextConfig  # noqa: E402
from qanat.engine.memory import PAGE, plan  # noqa: E402
from qanat.errors import OutOfMemoryError  # noqa: E402
from tools.published_sizes import published_config  # noqa: E402

SIZES = ("0.8B", "2B", "4B", "9B", "27B")
GIGABYTES = (8, 16, 32, 64, 128)
CONTEXTS = (4096, 32768, 262144)
MOST = 1024
"""The most that `--max-batch` takes."""


def fits(config: TextConfig, limit: int, context: int, users: int) -> bool:
    """Whether so many users fit into `limit` bytes, each with a context of so many tokens."""
    try:
        planned = plan(
            config,
            backend="cpu",
            context=context,
            sequences=users,
            snapshots=users,
            limit=limit,
            available=2 * limit,
        )
    except OutOfMemoryError:
        return False
    return planned.weights == "int8" and planned.pages * PAGE >= users * context


def most_users(config: TextConfig, limit: int, context: int) -> int:
    """The most users that fit; 0 if not even one does."""
    least, beyond = 0, MOST + 1
    while beyond - least > 1:
        middle = (least + beyond) // 2
        if fits(config, limit, context, middle):
            least = middle
        else:
            beyond = middle
    return least


def table() -> str:
    """The table in Markdown."""
    contexts = " / ".join(f"{context:,}" for context in CONTEXTS)
    head = ["users at once, with a context of " + contexts, *(f"{memory} GB" for memory in GIGABYTES)]
    rows = [head, ["---"] * len(head)]
    for size in SIZES:
        config = ModelConfig.from_dict(published_config(size)).text
        cells = []
        for memory in GIGABYTES:
            users = [most_users(config, memory * 10**9, context) for context in CONTEXTS]
            cells.append(" / ".join(map(str, users)) if any(users) else "-")
        rows.append([size, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    print(table())
