"""Where the optional published Qwen3.5 files lie, and how a test skips without them."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
POCKET = ROOT / "src" / "qanat" / "pocket_model"
SHARED = ROOT.parent / "shared" / "assets"

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the published Qwen3.5 files are not beside the checkout (optional)"
)
