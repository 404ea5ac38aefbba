"""How much memory a model takes, how much there is, and a plan that fits, made before anything is loaded.

The recurrent state is float32 everywhere; weights, keys and values take what the backend's mode says.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from qanat.backends import storage
from qanat.checkpoint import sizes
from qanat.checkpoint.config import ModelConfig, TextConfig
from qanat.errors import OutOfMemoryError, RequestError

__all__ = [
    "DEFAULT_CONTEXT",
    "PAGE",
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
STEP_TOKENS = 256
"""The most tokens of one step: prompts are read in chunks of at most this many."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes, by purpose."""

    weights: int
    state: int
    """Recurrent matrices and conv windows of all sequences."""
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
    step = 4 * 4 * step_tokens * width + 4 * 8 * sequences * config.vocab_size
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


def available_bytes() -> int:
    """Memory that this process can still take: the system's, and what its control group leaves.

    Where the system does not say what is free, all of the installed memory; where it says nothing, no limit.
    """
    limits = [_meminfo(), _cgroup2(), _cgroup1()]
    return min((limit for limit in limits if limit is not None), default=_installed())


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
        available: bytes; None: what `available_bytes` says.

    Raises:
        OutOfMemoryError: not even one sequence fits.
        RequestError: the context is longer than the model's.
    """
    most = config.max_position_embeddings
    if context is not None and not 1 <= context <= most:
        raise RequestError(f"max_model_len must be from 1 to {most}, the model's own limit, not {context}")
    free = available_bytes() if available is None else available
    least = context or min(most, LEAST_CONTEXT)
    modes = [weights]
    if weights == "auto":
        modes = _auto_modes(config, stored_bf16, backend)
    for mode in modes:
        needed = estimate(config, mode, 0, sequences, backend=backend, step_tokens=step_tokens)
        per_token = max(1, sizes.kv_bytes_per_token(config, storage(backend, mode).key_value))
        fits = int(SHARE * free - needed.total) // per_token
        if fits < _round_up(least):
            continue
        chosen = context or min(most, DEFAULT_CONTEXT, fits // PAGE * PAGE)
        pages = min(fits // PAGE, sequences * _round_up(chosen) // PAGE)
        held = MemoryEstimate(needed.weights, needed.state, pages * PAGE * per_token, needed.working)
        return MemoryPlan(mode, chosen, pages, held)
    least_held = MemoryEstimate(needed.weights, needed.state, _round_up(least) * per_token, needed.working)
    raise _too_much(least_held, free, modes[-1], least, sequences, backend)


def _round_up(tokens: int) -> int:
    return -(-tokens // PAGE) * PAGE


def _too_much(
    needed: MemoryEstimate, free: int, weights: str, context: int, sequences: int, backend: str = "reference"
) -> OutOfMemoryError:
    helps = ["a smaller model"]
    if context > LEAST_CONTEXT:
        helps.insert(0, f"a context shorter than {context} tokens (max_model_len)")
    if sequences > 1:
        helps.insert(0, f"fewer than {sequences} sequences at once (max_batch)")
    if weights == "f32" or (weights == "bf16" and backend == "cpu"):
        helps.insert(0, f"weights='{'bf16' if weights == 'f32' else 'int8'}'")
    return OutOfMemoryError(
        f"the model needs about {_gib(needed.total)} ({weights} weights {_gib(needed.weights)}, state and a "
        f"context of {context} tokens {_gib(needed.state + needed.keys_values)}, working memory "
        f"{_gib(needed.working)}), but {_gib(free)} are free, a tenth of which is kept back; "
        f"try {', or '.join(helps)}, or end other programs"
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"


def _installed() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


def _meminfo() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cgroup2(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """What the tightest of this process's control groups (version 2) leaves, caches counted as free."""
    try:
        relative = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    folder = root / relative.lstrip("/")
    left = [
        _left(at / "memory.max", at / "memory.current", at / "memory.stat", "inactive_file")
        for at in (folder, *folder.parents)
        if at == root or root in at.parents
    ]
    known = [limit for limit in left if limit is not None]
    return min(known) if known else None


def _cgroup1(root: Path = Path("/sys/fs/cgroup/memory")) -> int | None:
    return _left(
        root / "memory.limit_in_bytes",
        root / "memory.usage_in_bytes",
        root / "memory.stat",
        "total_inactive_file",
    )


def _left(limit: Path, usage: Path, stat: Path, cache: str) -> int | None:
    try:
        most = int(limit.read_text())  # "max" is no number: no limit
        used = int(usage.read_text())
        counts = dict(line.split() for line in stat.read_text().splitlines())
        return max(0, most - used + int(counts.get(cache, 0)))
    except (OSError, ValueError):
        return None
