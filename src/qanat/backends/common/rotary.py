"""Angles of rotary positions (docs/model.md, "Gated attention").

Source: J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qanat.model.shapes import AttentionShape

__all__ = ["rotary_angles"]


def rotary_angles(positions: NDArray[np.int32], shape: AttentionShape) -> NDArray[np.float32]:
    """Angles [N, rotary_dim / 2] of every token and frequency.

    positions: [3, N] (time, height, width). Frequency j turns by theta^(-2j/rotary_dim) a position and takes
    its position from height if j % 3 == 1, from width if j % 3 == 2 (while j is below three times that
    axis's section), from time otherwise. Text has three equal rows, so the axes make no difference there.
    """
    half = shape.rotary_dim // 2
    # All in float32, as transformers computes them: at position 100,000 one unit in the last place of a
    # frequency is already 0.006 radians.
    exponent = np.arange(0, shape.rotary_dim, 2, dtype=np.float32) / np.float32(shape.rotary_dim)
    frequency = np.float32(1) / np.float32(shape.rope_theta) ** exponent
    axis = np.zeros(half, np.intp)
    for which in (1, 2):
        axis[which : 3 * shape.mrope_section[which] : 3] = which
    angles: NDArray[np.float32] = positions.T[:, axis].astype(np.float32) * frequency
    return angles
