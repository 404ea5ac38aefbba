"""Quantise a GGUF file to Q8_0 with llama.cpp's own quantiser. Runs in .venv-peers.

.venv-peers/bin/python benchmarks/peers/quantise.py FROM TO THREADS
"""

from __future__ import annotations

import ctypes
import sys

import llama_cpp


def main(source: str, target: str, threads: int) -> None:
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0
    params.nthread = threads
    code = llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params))
    if code:
        raise SystemExit(f"llama_model_quantize failed with {code}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
