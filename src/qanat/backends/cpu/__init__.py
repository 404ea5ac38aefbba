"""The CPU backend: Numba kernels over our own SIMD vector types.

Knows: instruction sets, packed weights, caches, threads. Must not know: requests, prompts, tokens' text.
"""
