"""The room of requests: prompts in, replies out, many at once.

It knows sampling parameters, stopping, which sequences share a step, and who owns which slot and page of
the state. It must not know the mathematics of the model, how a backend computes, terminals or HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.engine.sampling_params import SamplingParams
from qanat.engine.structure import Structure

if TYPE_CHECKING:
    from qanat.engine.async_llm import AsyncLLM
    from qanat.engine.llm import LLM
    from qanat.engine.reply import PromptProgress, Reply, ReplyChunk, TokenLogprob, Usage
    from qanat.engine.request_options import RequestOptions
    from qanat.engine.stats import EngineStats, StepRecord

__all__ = [
    "LLM",
    "AsyncLLM",
    "EngineStats",
    "PromptProgress",
    "Reply",
    "ReplyChunk",
    "RequestOptions",
    "SamplingParams",
    "StepRecord",
    "Structure",
    "TokenLogprob",
    "Usage",
]

_HOMES = {
    "AsyncLLM": "async_llm",
    "EngineStats": "stats",
    "LLM": "llm",
    "PromptProgress": "reply",
    "Reply": "reply",
    "ReplyChunk": "reply",
    "RequestOptions": "request_options",
    "StepRecord": "stats",
    "Structure": "structure",
    "TokenLogprob": "reply",
    "Usage": "reply",
}


def __getattr__(name: str) -> object:
    """Load the model and backends only when someone asks for them (PEP 562)."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"qanat.engine.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
