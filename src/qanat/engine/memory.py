"""How much memory a model takes, how much there is, and a plan that fits, made before anything is loaded.

The recurrent state is float32 everywhere; weights, keys and values take what the backend's mode says.
"""

from __future__ import annotations

from dataclasses import dataclass

from qanat.backends import storage
from qanat.checkpoint import sizes
from qanat.checkpoint.config import ModelConfig, TextConfig
from qanat.engine.free_memory import available_bytes
from qanat.errors import OutOfMemoryError, RequestError

__all__ = [
    "DEFAULT_CONTEXT",
    "PAGE",
    "PROMPT_ROWS",
    "STEP_TOKENS",
    "MemoryEstimate",
    "MemoryPlan",
    "available_bytes",
    "check",
    "estimate",
    "plan",
]

PAGE = 64
"""Tokens in a page of keys and values."""
DEFAULT_CONTEXT = 32768
"""The longest prompt plus reply, unless the model or the memory allows less or the user asks for more."""
LEAST_CONTEXT = 2048
"""A default context is not made shorter than this to save memory (unless the model is)."""
SHARE = 0.9
"""Of the free memory, what we plan with: the rest is for Python, the tokenizer and the system."""
LARGE_WEIGHTS = 1 << 30
"""Bytes of float32 weights beyond which the reference's "auto" leaves bfloat16 as it is."""
WORTH_INT8 = 1 << 27
"""Bytes of bfloat16 weights up to which the CPU's "auto" keeps bfloat16: they fit the caches or nearly so."""
LEAST_SNAPSHOTS = 8
"""Snapshots of prefixes that are kept where memory allows, however few sequences run."""
STEP_TOKENS = 256
"""The most tokens of one step: prompts are read in chunks of at most this many."""

PROMPT_ROWS = 64
"""The most rows of logits that log probabilities of prompts take in one step: each is a vocabulary long."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes, by purpose."""

    weights: int
    state: int
    """Recurrent matrices and conv windows of all sequences and snapshots."""
    keys_values: int
    """Keys and values of all sequences at full length."""
    working: int
    """The largest temporary arrays: while loading, in a step, and for logits."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.state + self.keys_values + self.working


@dataclass(frozen=True)
class MemoryPlan:
    """What the engine allocates."""

    weights: str
    """"f32", "bf16" or "int8"."""
    context: int
    """The longest prompt plus reply, in tokens."""
    pages: int
    """Pages of keys and values in the pool."""
    snapshots: int
    """The most prefixes whose state is kept for later requests."""
    estimate: MemoryEstimate


def estimate(
    config: ModelConfig | TextConfig,
    weights: str,
    context: int,
    sequences: int,
    *,
    backend: str = "reference",
    step_tokens: int = STEP_TOKENS,
) -> MemoryEstimate:
    """Bytes needed for `sequences` sequences of `context` tokens each on a backend in a weights mode."""
    config = config.text if isinstance(config, ModelConfig) else config
    size = storage(backend, weights)
    width = max(config.hidden_size, 2 * (config.intermediate_size or config.hidden_size), config.conv_dim)
    # Turning the embedding into float32 holds a second copy for a moment; bfloat16 is mapped, not copied.
    loading = 4 * config.vocab_size * config.hidden_size if weights == "f32" else 0
    logits = 8 * sequences + min(PROMPT_ROWS, step_tokens)
    step = 4 * 4 * step_tokens * width + 4 * logits * config.vocab_size
    return MemoryEstimate(
        weights=round(size.weight * config.num_parameters),
        state=sequences * (sizes.recurrent_state_bytes(config) + sizes.conv_state_bytes(config, 4)),
        keys_values=sequences * context * sizes.kv_bytes_per_token(config, size.key_value),
        working=max(loading, step),
    )


def _auto_modes(config: TextConfig, stored_bf16: bool, backend: str) -> list[str]:
    """The modes that "auto" may take, the better one first.

    CPU: int8, for half the bytes to read; a model so small that reading is no effort stays bfloat16.
    Reference: what loses nothing. Of a bfloat16 file both modes give the same bits: small weights compute
    quicker as float32, large ones would take longer to convert than most replies win back.
    """
    if backend == "cpu":
        return ["bf16", "int8"] if 2 * config.num_parameters <= WORTH_INT8 else ["int8"]
    if not stored_bf16:
        return ["f32"]
    return ["bf16"] if 4 * config.num_parameters > LARGE_WEIGHTS else ["f32", "bf16"]


def check(
    config: ModelConfig | TextConfig,
    weights: str,
    context: int,
    sequences: int = 1,
    *,
    available: int | None = None,
) -> MemoryEstimate:
    """Estimate, and compare with `available` bytes (None: what `available_bytes` says).

    Raises:
        OutOfMemoryError: it does not fit; the message says what is needed, what is free and what helps.
    """
    needed = estimate(config, weights, context, sequences)
    free = available_bytes() if available is None else available
    if needed.total > SHARE * free:
        raise _too_much(needed, free, weights, context, sequences)
    return needed


def plan(
    config: TextConfig,
    *,
    backend: str = "reference",
    weights: str = "auto",
    context: int | None = None,
    sequences: int = 8,
    stored_bf16: bool = True,
    step_tokens: int = STEP_TOKENS,
    snapshots: int | None = None,
    limit: int | None = None,
    available: int | None = None,
) -> MemoryPlan:
    """Choose weights mode, context and page pool such that they fit.

    Args:
        config: the text model.
        backend: what computes: "cpu" or "reference".
        weights: a mode of the backend, or "auto": int8 on the CPU unless the model is small; f32 on the
            reference, but large or too large weights stay bf16 if stored so.
        context: the longest prompt plus reply; None: as much as fits, at most DEFAULT_CONTEXT.
        sequences: the most sequences at once. Fewer run when the pool is short, never none.
        step_tokens: the most tokens of one step.
        stored_bf16: whether the checkpoint's weights are bfloat16 already.
        snapshots: the most snapshots of prefixes; None: what memory is left for, at most four for each
            sequence (and eight in all, if that is more).
        limit: the most bytes to take; None: SHARE of what is available.
        available: bytes; None: what `available_bytes` says.

    Raises:
        OutOfMemoryError: not even one sequence fits.
        RequestError: the context is longer than the model's.
    """
    most = config.max_position_embeddings
    if context is not None and not 1 <= context <= most:
        raise RequestError(f"max_model_len must be from 1 to {most}, the model's own limit, not {context}")
    free = available_bytes() if available is None else available
    usable = int(SHARE * free) if limit is None else min(limit, int(SHARE * free))
    least = context or min(most, LEAST_CONTEXT)
    modes = [weights]
    if weights == "auto":
        modes = _auto_modes(config, stored_bf16, backend)
    for mode in modes:
        needed = estimate(config, mode, 0, sequences, backend=backend, step_tokens=step_tokens)
        per_token = max(1, sizes.kv_bytes_per_token(config, storage(backend, mode).key_value))
        slot = needed.state // sequences
        kept = slot * (snapshots or 0)
        fits = (usable - needed.total - kept) // per_token
        if fits < _round_up(least):
            continue
        spare = 0  # bytes that a default context leaves to snapshots where memory is short
        if context is None and snapshots is None:
            spare = min(LEAST_SNAPSHOTS * slot, (fits - _round_up(least)) * per_token // 8)
        chosen = context or min(most, DEFAULT_CONTEXT, (fits - spare // per_token) // PAGE * PAGE)
        pages = min(fits // PAGE, sequences * _round_up(chosen) // PAGE)
        count = snapshots
        if count is None:  # of what is left, and of a quarter of the pages beyond one context
            left, page = (fits - pages * PAGE) * per_token, PAGE * per_token
            count = min(
                max(LEAST_SNAPSHOTS, 4 * sequences),
                (left + (pages - _round_up(chosen) // PAGE) // 4 * page) // max(1, slot),
            )
            pages -= max(0, -(-(count * slot - left) // page))
            kept = count * slot
        held = MemoryEstimate(needed.weights, needed.state + kept, pages * PAGE * per_token, needed.working)
        return MemoryPlan(mode, chosen, pages, count, held)
    state, cache = needed.state + kept, _round_up(least) * per_token
    least_held = MemoryEstimate(needed.weights, state, cache, needed.working)
    raise _too_much(least_held, free, modes[-1], least, sequences, backend, limit, snapshots)


def _round_up(tokens: int) -> int:
    return -(-tokens // PAGE) * PAGE


def _too_much(
    needed: MemoryEstimate,
    free: int,
    weights: str,
    context: int,
    sequences: int,
    backend: str = "reference",
    limit: int | None = None,
    snapshots: int | None = None,
) -> OutOfMemoryError:
    helps = ["a smaller model"]
    room = f"{_gb(free)} are free, a tenth of which is kept back"
    if snapshots:
        helps.insert(0, f"fewer than {snapshots} snapshots")
    if limit is not None and limit < SHARE * free:
        helps.insert(0, "a higher limit (memory)")
        room = f"the limit is {_gb(limit)}"
    if context > LEAST_CONTEXT:
        helps.insert(0, f"a context shorter than {context} tokens (max_model_len)")
    if sequences > 1:
        helps.insert(0, f"fewer than {sequences} sequences at once (max_batch)")
    if weights == "f32" or (weights == "bf16" and backend == "cpu"):
        helps.insert(0, f"weights='{'bf16' if weights == 'f32' else 'int8'}'")
    return OutOfMemoryError(
        f"the model needs about {_gb(needed.total)} ({weights} weights {_gb(needed.weights)}, state and a "
        f"context of {context} tokens {_gb(needed.state + needed.keys_values)}, working memory "
        f"{_gb(needed.working)}), but {room}; "
        f"try {', or '.join(helps)}, or end other programs"
    )


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
