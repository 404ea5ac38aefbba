"""How often the first draft of multi-token prediction is the token that greedy decoding takes.

Counted in float32 by the training graph, so it needs torch; the prompts are those of the evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qanat import LLM


def first_draft_acceptance(llm: LLM, prompts: Sequence[str]) -> float:
    """Percentage of first drafts that are right in the greedy replies to rendered prompts."""
    from .. import mtp

    trunk, layer = mtp.published_weights(Path(llm.checkpoint.path))
    right = drafts = 0
    for prompt in prompts:
        ids = llm.tokenizer.encode(prompt)
        found = mtp.first_draft_acceptance(trunk, layer, ids, llm.checkpoint.stop_ids, llm.vocabulary.live)
        right, drafts = right + found[0], drafts + found[1]
    return 100 * right / drafts
