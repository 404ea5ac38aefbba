"""qanat: inference for the Qwen3.5 family, from the checkpoint's bytes to the streamed reply.

The public names are loaded on first use, so that `import qanat.text` costs no model and no kernels.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.checkpoint import load_checkpoint
    from qanat.engine import LLM, AsyncLLM, Reply, RequestOptions, SamplingParams, Structure
    from qanat.errors import QanatError
    from qanat.text import ChatTemplate, Tokenizer

__version__ = "0.1.0"
__all__ = [
    "LLM",
    "AsyncLLM",
    "ChatTemplate",
    "QanatError",
    "Reply",
    "RequestOptions",
    "SamplingParams",
    "Structure",
    "Tokenizer",
    "load_checkpoint",
]

_HOME = {
    "AsyncLLM": "qanat.engine",
    "LLM": "qanat.engine",
    "Reply": "qanat.engine",
    "RequestOptions": "qanat.engine",
    "SamplingParams": "qanat.engine",
    "Structure": "qanat.engine",
    "ChatTemplate": "qanat.text",
    "Tokenizer": "qanat.text",
    "QanatError": "qanat.errors",
    "load_checkpoint": "qanat.checkpoint",
}


def __getattr__(name: str) -> object:
    """Import a public name from its room on first use (PEP 562)."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'qanat' has no attribute {name!r}")
