"""Memory that kernels use and forget: allocated once, grown when a larger step comes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Workspace"]


class Workspace:
    """A flat float32 buffer for one call at a time; its contents do not outlive the call."""

    def __init__(self) -> None:
        self._buffer = np.empty(0, np.float32)

    def floats(self, count: int) -> NDArray[np.float32]:
        """At least `count` elements, uninitialised."""
        if len(self._buffer) < count:
            self._buffer = np.empty(count + count // 4, np.float32)
        return self._buffer
