"""The Qwen3.5 architecture, written once over the protocol `Ops`.

Knows: the order of layers, which tensor feeds which operation, and the mathematics (docs/model.md).
Must not know: devices and memory layouts (a backend's), requests, text, or where tensors come from.
"""

from qanat.model.batch import Batch
from qanat.model.ops import HeadOutput, Ops
from qanat.model.sampling import Choice, SamplingRow
from qanat.model.text_model import TextModel, require_runnable

__all__ = ["Batch", "Choice", "HeadOutput", "Ops", "SamplingRow", "TextModel", "require_runnable"]
