"""The element types of safetensors: their names in a header, their width, and NumPy's type for each."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np

__all__ = ["BITS", "NUMPY", "name_of"]

# Every type that the format knows, and its width in bits.
BITS: Mapping[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}

# The types that can be read as arrays. Files are little-endian, and so are all machines qanat runs on.
NUMPY: Mapping[str, np.dtype] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
}

_NAME = {dtype: name for name, dtype in NUMPY.items()}


def name_of(dtype: np.dtype) -> str:
    """Name a NumPy type as a safetensors header does.

    Raises:
        KeyError: the format has no such type.
    """
    return _NAME[np.dtype(dtype)]
