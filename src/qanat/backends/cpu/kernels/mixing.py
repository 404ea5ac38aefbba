"""The two mixers as instructions: their phases, and the meetings of threads between them."""

from __future__ import annotations

import numpy as np

from qanat.backends.cpu.kernels.attention import ATTEND, MERGE, PREPARE, gated_attention
from qanat.backends.cpu.kernels.delta import EVERYTHING, NORM, RECUR, gated_delta
from qanat.backends.cpu.kernels.delta import PREPARE as PREPARE_DELTA
from qanat.backends.cpu.kernels.jit import inner
from qanat.backends.cpu.kernels.operands import f32, i64, number
from qanat.backends.cpu.kernels.sync import meet

__all__ = ["attention", "delta"]
