"""Measuring: how fast a model runs here, beside what the machine can do.

Knows: clocks, the engine, the CPU backend and its ceilings. Must not know: the terminal, other engines (those
are in the repository's `benchmarks/`).
"""

from __future__ import annotations
