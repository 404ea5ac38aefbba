"""Backends: devices, layouts and kernels behind `qanat.model.Ops`.

Knows: arrays, memory, instruction sets. Must not know: requests, prompts, tokens' text.
"""

from __future__ import annotations

from typing import Any

from qanat.errors import RequestError
from qanat.model.ops import Ops

__all__ = ["BACKENDS", "WEIGHTS", "open_backend"]

BACKENDS = ("auto", "reference")
WEIGHTS = ("auto", "f32", "bf16")


def open_backend(name: str = "auto", *, weights: str = "auto") -> Ops[Any]:
    """A backend by name.

    Args:
        name: "reference" (NumPy); "auto" picks the fastest one there is, which is still the reference.
        weights: "f32" computes with the stored values, "bf16" rounds them to bfloat16 and takes half the
            memory; "auto" is "f32" (the engine chooses before it comes here).

    Raises:
        RequestError: an unknown name.
    """
    if name not in BACKENDS:
        raise RequestError(f"unknown backend {name!r}: choose one of {', '.join(BACKENDS)}")
    if weights not in WEIGHTS:
        raise RequestError(f"unknown weights mode {weights!r}: choose one of {', '.join(WEIGHTS)}")
    from qanat.backends.reference import ReferenceOps  # imported late: the backend brings NumPy

    return ReferenceOps("f32" if weights == "auto" else weights)
