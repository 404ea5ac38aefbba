"""`qanat verify`: the same model beside transformers, stage by stage, as a table of passed and failed."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qanat.cli import invocation
from qanat.cli.input import InputError
from qanat.cli.options import also_model_option, one_model
from qanat.cli.output import bytes_text, note, print_json
from qanat.cli.terminal import Status

if TYPE_CHECKING:
    from qanat.checkpoint import Checkpoint
    from qanat.cli.verify_checks import Check

__all__ = ["verify"]

DIFFERENT = 1
"""Exit code when something differs."""
SMALL = 50_000_000
"""Parameters below which one thread computes faster than several."""


def _require_transformers(model: str) -> None:
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if not missing:
        return
    ways = f"install them with: {invocation.install('parity')}"
    root = invocation.source_tree()
    if root is not None and (root / "Makefile").is_file():
        ways += (
            f"; or keep them apart: make -C {quote(str(root))} parity-env && "
            f"{quote(str(root / '.venv-parity' / 'bin' / 'qanat'))} verify {quote(model)}"
        )
    raise InputError(
        f"verify compares with transformers, and {' and '.join(missing)} are not in this environment; {ways}"
    )


def verify(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A model folder, a hub id, or `pocket`.")
    ] = None,
    tokens: Annotated[int, typer.Option(help="Length of the greedy replies.", min=1)] = 64,
    prompts: Annotated[int, typer.Option(help="How many prompts are answered.", min=1, max=8)] = 8,
    named: Annotated[str | None, also_model_option] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never ask the hub.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Hold a model against transformers: prompts, ids, decoding, float32 logits, greedy replies.

    Needs torch and transformers in the same environment. Leaves with 1 when anything differs.
    """
    model = one_model("verify", model, named)
    _require_transformers(model)
    from qanat.checkpoint import load_checkpoint
    from qanat.engine.defaults import DIFFERENCES_FROM_TRANSFORMERS

    checkpoint = load_checkpoint(model, revision=revision, offline=offline or None)
    checks = [*_text_checks(checkpoint.path), *_model_checks(checkpoint, tokens, prompts)]
    fine = all(check.fine for check in checks)
    if as_json:
        print_json(
            {
                "model": checkpoint.name,
                "passed": fine,
                "checks": [asdict(check) for check in checks],
                "defaults_that_differ": [
                    dict(zip(("what", "qanat", "transformers", "why"), difference, strict=True))
                    for difference in DIFFERENCES_FROM_TRANSFORMERS
                ],
            }
        )
    else:
        for check in checks:
            mark = "pass" if check.fine else "FAIL"
            print(
                f"{mark}  {check.name:<18}{check.passed:>5} passed {check.failed:>3} failed  {check.detail}"
            )
        print("defaults that differ from transformers' generate:")
        for what, ours, theirs, why in DIFFERENCES_FROM_TRANSFORMERS:
            print(f"  {what}: {ours}; transformers: {theirs} ({why})")
        print(f"{checkpoint.name}: {'equal to transformers' if fine else 'DIFFERS from transformers'}")
    if not fine:
        raise typer.Exit(DIFFERENT)


def _text_checks(folder: Path) -> list[Check]:
    from transformers import AutoTokenizer

    from qanat.cli.verify_checks import check_decoding, check_ids, check_prompts
    from qanat.text import ChatTemplate, Tokenizer

    note("comparing prompts and tokens")
    judge = AutoTokenizer.from_pretrained(folder)
    tokenizer = Tokenizer.from_folder(folder)
    return [
        check_prompts(judge, ChatTemplate.from_folder(folder)),
        check_ids(judge, tokenizer),
        check_decoding(judge, tokenizer),
    ]


def _model_checks(checkpoint: Checkpoint, tokens: int, count: int) -> list[Check]:
    from qanat.cli.forward import all_logits
    from qanat.cli.verify_checks import Judge, check_greedy, check_logits
    from qanat.cli.verify_inputs import PROMPTS

    _require_memory(checkpoint, tokens, count)
    note("answering with qanat, float32")
    status = Status(worth_a_line=False)
    sequences, lengths, live, model = _own_replies(checkpoint, PROMPTS[:count], tokens, status)
    whole, pieces = [], []
    for number, ids in enumerate(sequences):
        status.show(f"qanat, logits: {number + 1} of {len(sequences)}")
        whole.append(all_logits(model, ids))
        # Once more through the state, token by token and in odd pieces: the road that generation takes.
        pieces.append(all_logits(model, ids, step=1 if number == 0 else 7))
    del model
    status.clear()
    note("asking transformers, float32 and float64")
    judge = Judge(
        _their_model(checkpoint.path, _parameters(checkpoint)), doubled=_room_for_double(checkpoint)
    )
    stop_ids, rows = checkpoint.stop_ids, checkpoint.config.text.vocab_size
    their_replies = []
    for number, (ids, length) in enumerate(zip(sequences, lengths, strict=True), 1):
        status.show(f"transformers, greedy reply: {number} of {len(sequences)}")
        their_replies.append(judge.greedy(ids[:length], tokens, stop_ids, range(live, rows)))
    judge.read(sequences, status.show)
    status.clear()
    return [
        check_logits("logits, at once", judge, whole),
        check_logits("logits, in pieces", judge, pieces),
        check_greedy(judge, lengths, sequences, their_replies),
    ]


def _own_replies(
    checkpoint: Checkpoint, prompts: tuple[str, ...], tokens: int, status: Status
) -> tuple[list[list[int]], list[int], int, Any]:
    """(prompt + greedy reply as ids, prompt lengths, live vocabulary, the bare model)."""
    from qanat.backends import open_backend
    from qanat.engine import LLM, SamplingParams
    from qanat.model import TextModel

    ops = open_backend("auto", weights="f32")
    llm = LLM(checkpoint.path, weights="f32", max_batch=1)
    sequences, lengths = [], []
    for number, prompt in enumerate(prompts, 1):
        status.show(f"qanat, greedy reply: {number} of {len(prompts)}")
        text = llm.template.render([{"role": "user", "content": prompt}], add_generation_prompt=True)
        ids = llm.tokenizer.encode(text)
        reply = llm.generate(ids, SamplingParams.greedy(max_tokens=tokens))
        sequences.append(ids + list(reply.token_ids))
        lengths.append(len(ids))
    live = llm.vocabulary.live
    del llm  # one copy of the weights at a time
    return sequences, lengths, live, TextModel(checkpoint.config.text, checkpoint.tensors, ops)


def _their_model(folder: Path, parameters: int) -> Any:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    if parameters < SMALL:
        torch.set_num_threads(1)  # threads only wait for one another; on a busy machine, for minutes
    logging.set_verbosity_error()
    logging.disable_progress_bar()

    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


def _parameters(checkpoint: Checkpoint) -> int:
    return checkpoint.config.text.num_parameters


def _require_memory(checkpoint: Checkpoint, tokens: int, prompts: int) -> None:
    from qanat.engine.memory import available_bytes
    from qanat.errors import OutOfMemoryError

    # One model at a time, but what Python gives back may not reach the system at once. Then the logits of
    # every position: ours twice and theirs in float32, the truth in float64.
    logits = 20 * prompts * (tokens + 64) * checkpoint.config.text.vocab_size
    need, free = 5 * _parameters(checkpoint) + logits, available_bytes()
    if free is not None and need > free:
        raise OutOfMemoryError(
            f"verify holds {checkpoint.name} in float32, about {bytes_text(need)} with all logits, "
            f"but only {bytes_text(free)} are free"
        )


def _room_for_double(checkpoint: Checkpoint) -> bool:
    from qanat.engine.memory import available_bytes

    free = available_bytes()
    return free is None or 10 * _parameters(checkpoint) < free
