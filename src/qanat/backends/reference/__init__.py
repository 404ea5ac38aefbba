"""The reference backend: the executable specification, in NumPy float32.

Knows: one plain function for each equation of docs/model.md. Must not know: speed tricks. It is the oracle
of every kernel test. Each row is computed on its own, by the same calls on the same shapes whatever else is
in the batch, so its bits depend on its sequence alone.
"""

from qanat.backends.reference.ops import ReferenceOps

__all__ = ["ReferenceOps"]
