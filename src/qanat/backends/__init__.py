"""Backends: devices, layouts and kernels behind `qanat.model.Ops`.

Knows: arrays, memory, instruction sets. Must not know: requests, prompts, tokens' text.
"""
