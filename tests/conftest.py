"""Make `assets` and other helpers of this folder, and the `tools`, importable from every test."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
