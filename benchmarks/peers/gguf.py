"""A checkpoint in llama.cpp's format, Q8_0, made once with its own converter and quantiser."""

from __future__ import annotations

import subprocess
from pathlib import Path

from qanat.checkpoint import load_checkpoint

__all__ = ["q8_0"]

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "peers"
CONVERTER = "llama_cpp_python-*/vendor/llama.cpp/convert_hf_to_gguf.py"
PARITY = ROOT / ".venv-parity" / "bin" / "python"  # the converter reads with torch and transformers
PEERS = ROOT / ".venv-peers" / "bin" / "python"


def q8_0(folder: Path, threads: int) -> Path:
    """The Q8_0 file of a checkpoint's text model without its draft layer, kept in build/peers."""
    name = f"{folder.resolve().name}-{load_checkpoint(folder).fingerprint[:12]}"
    target = CACHE / f"{name}.q8_0.gguf"
    if target.is_file():
        return target
    converter = next(CACHE.glob(CONVERTER), None)
    if converter is None or not PEERS.is_file() or not PARITY.is_file():
        raise SystemExit("llama.cpp is not built: run `make peers`")
    whole, unfinished = CACHE / f"{name}.bf16.gguf", CACHE / f"{name}.unfinished"
    try:
        run = ["--no-mtp", "--outtype", "bf16", "--outfile", whole]
        subprocess.run([PARITY, converter, folder, *run], check=True)
        quantise = Path(__file__).with_name("quantise.py")
        subprocess.run([PEERS, quantise, whole, unfinished, str(threads)], check=True)
        unfinished.rename(target)
    finally:
        whole.unlink(missing_ok=True)
        unfinished.unlink(missing_ok=True)
    return target
