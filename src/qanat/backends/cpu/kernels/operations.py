"""The operations that a tape may ask for, by number."""

from __future__ import annotations

__all__ = ["ATTENTION", "DELTA", "EMBED", "LINEAR", "NORM", "QUANTISE", "SWIGLU"]

EMBED, NORM, QUANTISE, SWIGLU, LINEAR, DELTA, ATTENTION = range(7)
