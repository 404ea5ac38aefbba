"""Backends: devices, layouts and kernels behind `qanat.model.Ops`.

Knows: arrays, memory, instruction sets. Must not know: requests, prompts, tokens' text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qanat.errors import RequestError
from qanat.model.ops import Ops

__all__ = ["BACKENDS", "WEIGHTS", "PackSource", "Storage", "choose_backend", "open_backend", "storage"]

BACKENDS = ("auto", "cpu", "reference")
WEIGHTS = ("auto", "int8", "bf16", "f32")


@dataclass(frozen=True)
class Storage:
    """How many bytes a backend keeps for one number, in one weights mode."""

    weight: float
    """Of a weight matrix, scales included."""
    key_value: int
    """Of a key or a value in the attention's cache."""


_STORAGE = {
    ("reference", "f32"): Storage(4, 4),
    ("reference", "bf16"): Storage(2, 4),
    ("cpu", "bf16"): Storage(2, 4),
    ("cpu", "int8"): Storage(1 + 2 / 32, 2),
}


@dataclass(frozen=True)
class PackSource:
    """What packed weights are kept by, between runs."""

    fingerprint: str
    """Changes with the checkpoint's bytes."""
    model: str
    """As the user named it, for listings."""


def choose_backend(name: str, weights: str = "auto", threads: int | None = None) -> str:
    """The backend that a name stands for: "cpu" or "reference".

    "auto" is the fastest one that has the weights mode: "cpu", but for "f32".

    Raises:
        RequestError: an unknown name, a mode that the backend lacks, or threads for the reference, which
            computes in one.
    """
    if name not in BACKENDS:
        raise RequestError(f"unknown backend {name!r}: choose one of {', '.join(BACKENDS)}")
    if name == "auto":
        name = "reference" if weights == "f32" else "cpu"
    if weights != "auto":
        storage(name, weights)
    if name == "reference" and threads is not None:
        raise RequestError("the reference backend computes in one thread: leave threads out")
    return name


def storage(backend: str, weights: str) -> Storage:
    """Bytes per number of a backend (not "auto") in a weights mode (not "auto").

    Raises:
        RequestError: the mode is unknown, or this backend does not have it.
    """
    if weights not in WEIGHTS:
        raise RequestError(f"unknown weights mode {weights!r}: choose one of {', '.join(WEIGHTS)}")
    found = _STORAGE.get((backend, weights))
    if found is None:
        offered = [mode for name, mode in _STORAGE if name == backend]
        raise RequestError(
            f"the {backend} backend has no weights={weights!r}: choose one of {', '.join(offered)}, or auto"
        )
    return found


def open_backend(
    name: str = "auto", *, weights: str = "auto", threads: int | None = None, pack: PackSource | None = None
) -> Ops[Any]:
    """A backend by name.

    Args:
        name: "reference" (NumPy), "cpu" (Numba), or "auto": the fastest one that has the mode.
        weights: "f32" computes with the stored values, "bf16" rounds them to bfloat16, "int8" to whole
            numbers with a scale for 32 each. "auto" is "f32" on the reference and "bf16" on the CPU backend
            (the engine chooses by size before it comes here).
        threads: how many compute (cpu only); None: the physical cores. No effect on the results.
        pack: keep packed weights on disk under this name (cpu only), and find them there.

    Raises:
        RequestError: an unknown name, a mode that the backend lacks, or a useless thread count.
    """
    name = choose_backend(name, weights, threads)
    if weights == "auto":
        weights = "f32" if name == "reference" else "bf16"
    if name == "reference":
        from qanat.backends.reference import ReferenceOps  # imported late: the backend brings NumPy

        return ReferenceOps(weights)
    from qanat.backends.cpu.ops import CpuOps  # imported late: it brings Numba
    from qanat.backends.cpu.pack_cache import PackCache

    cache = None if pack is None else PackCache(pack.fingerprint, pack.model, weights)
    return CpuOps(weights, threads=threads, pack=cache)
