"""How kernels are compiled: no fast mathematics, no interpreter lock, results kept on disk.

Most functions are called by kernels alone. They get no wrappers for callers from Python or C, which take
longer to compile than many a body.
"""

from __future__ import annotations

from numba import njit

__all__ = ["entry", "inlined", "inner", "merged"]

_COMMON = {"nogil": True, "cache": True, "error_model": "numpy"}
_HIDDEN = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

entry = njit(**_COMMON)
"""A function that Python calls."""
inner = njit(**_COMMON, **_HIDDEN)
"""A function that only kernels call."""
inlined = njit(**_COMMON, **_HIDDEN, forceinline=True)
"""A small one, always made part of its caller."""
merged = njit(**_COMMON, **_HIDDEN, inline="always")
"""One with a single caller: copied into it before anything is compiled.

Compiled by itself it would be optimised once more at each level of callers, with all that it calls."""
