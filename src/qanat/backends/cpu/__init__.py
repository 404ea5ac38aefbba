"""The CPU backend: Numba kernels over our own SIMD vector types.

Knows: instruction sets, packed weights, caches, threads. Must not know: requests, prompts, tokens' text.
"""

from __future__ import annotations

from qanat.backends.cpu.kernel_cache import use_kernel_cache

use_kernel_cache()  # before any kernel is defined
