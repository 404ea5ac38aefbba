"""Scores a checkpoint on prompts that its corpus never holds, greedily and through qanat itself.

    python -m tools.pocket.evaluate --model pocket --count 200 --jobs 2

Each group gets `count` different prompts (off-topic half as many again), with thinking off and on. A reply is
right when the text behind its thought equals the expected one exactly and ends there; a story is judged by
rules (scoring/judges.py). Tool skills are scored by step: each call, and the answer once the tool has spoken.
README.md says what is held out. At 200 prompts the 95 % interval is about +-3 points near 95 %, at 50 +-6.

Then it samples stories, measures the loss on held-out conversations, and with --drafts (which needs torch)
counts how often the first draft of multi-token prediction is right.

With --check the exit status is 1 when a bar is missed: a group is below it with thinking off, loses more than
three points with thinking on, or fewer than 40 of 100 stories sampled about one thing differ and are sound.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from qanat import SamplingParams

from . import tokenizer
from .corpus import Fragments, Maker
from .held_out_loss import held_out_loss
from .scoring.cases import Case, held_out_cases
from .scoring.drafts import first_draft_acceptance
from .scoring.judges import story_is_sound
from .scoring.new_wordings import new_wordings
from .scoring.replies import LONGEST_REPLY, Speaker
from .scoring.table import Report, Row, Stories, fill_card, split_card, text_table

STORY_SAMPLES = 100
STORY_THING = "dragon"


def all_cases(fragments: Fragments, count: int, seed: int, thinking: bool) -> list[Case]:
    """What is asked, in one order for a seed: the held-out prompts, then the new wordings."""
    maker = Maker(random.Random(seed), fragments, held_out=True)
    return [*held_out_cases(maker, count, thinking), *new_wordings(random.Random(seed))]


def verdicts(cases: Sequence[Case], replies: Sequence[str], show: int = 0) -> dict[str, list[bool]]:
    """Group -> whether each reply is right; prints the first `show` wrong ones of each group."""
    found: dict[str, list[bool]] = {}
    for case, said in zip(cases, replies, strict=True):
        right = case.right(said, case.expected)
        group = found.setdefault(case.group, [])
        if not right and group.count(False) < show:
            print(f"  {case.group}: {case.messages[-1]['content']!r} -> {said!r}, not {case.expected!r}")
        group.append(right)
    return found


def rows(off: dict[str, list[bool]], on: dict[str, list[bool]]) -> list[Row]:
    """Percentages of both ways of answering."""
    return [
        Row(group, 100 * sum(right) / len(right), 100 * sum(on[group]) / len(on[group]), len(right))
        for group, right in off.items()
    ]


def sampled_stories(speaker: Speaker) -> Stories:
    """One question, answered at temperature 1 with one seed after another."""
    question = f"Tell me a short story about a {STORY_THING}."
    case = Case("story", [{"role": "user", "content": question}], "")
    params = [
        SamplingParams(temperature=1, top_p=0.95, top_k=0, seed=seed, max_tokens=LONGEST_REPLY)
        for seed in range(STORY_SAMPLES)
    ]
    told = speaker.replies([case] * STORY_SAMPLES, thinking=False, params=params)
    sound = [text for text in told if story_is_sound(text, STORY_THING)]
    return Stories(STORY_SAMPLES, len(set(sound)), 100 * len(sound) / STORY_SAMPLES)


def main() -> None:
    """Print the table, and write the figures where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--count", type=int, default=200, help="prompts per group")
    parser.add_argument("--seed", type=int, default=77)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--jobs", type=int, default=1, help="processes that answer")
    parser.add_argument(
        "--drafts",
        type=int,
        default=0,
        help="prompts, with thinking off and on, for which right first drafts are counted",
    )
    parser.add_argument("--show", type=int, default=0, help="wrong replies to print per group")
    parser.add_argument("--check", action="store_true", help="exit status 1 if a bar is missed")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--card", type=Path, help="model card whose table is rewritten")
    args = parser.parse_args()
    if args.count < 1 or args.drafts < 0:
        parser.error("--count must be at least 1, and --drafts not negative")
    if args.json and not args.json.parent.is_dir():
        parser.error(f"--json {args.json}: there is no folder {args.json.parent}")
    if args.card:
        split_card(args.card)  # a card that cannot be filled is refused before the long part
    speaker = Speaker(args.model, args.jobs, args.backend)
    if args.drafts and not speaker.llm.checkpoint.has_mtp:
        parser.error(f"--drafts: {args.model} has no layer for multi-token prediction")
    fragments = Fragments.of(tokenizer.load(speaker.llm.checkpoint.path))
    by_mode: list[dict[str, list[bool]]] = []
    drafted: list[str] = []
    for thinking in (False, True):
        cases = all_cases(fragments, args.count, args.seed, thinking)
        by_mode.append(verdicts(cases, speaker.replies(cases, thinking), args.show))
        some = random.Random(args.seed).sample(cases, args.drafts)
        drafted += speaker.prompts(some, thinking)
    report = Report(
        rows(*by_mode),
        sampled_stories(speaker),
        settings={"count": args.count, "seed": args.seed, "drafts": args.drafts},
        loss=held_out_loss(speaker.llm.checkpoint.path),
        acceptance=first_draft_acceptance(speaker.llm, drafted) if drafted else None,
    )
    print(text_table(report))
    if args.json:
        args.json.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")
    if args.card:
        fill_card(args.card, report)
    sys.exit(args.check and not report.reached)


if __name__ == "__main__":
    main()
