"""The sRGB conversions as tables, for the shaders: the very numbers of the CPU rasteriser."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

_Floats = np.ndarray[Any, np.dtype[np.float32]]


@cache
def srgb_tables() -> tuple[_Floats, _Floats]:
    """Linear values of the codes, and the smallest float that encodes to each but 0 (Khronos Data Format 13.3)."""

    def decode(encoded: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)

    exact = decode((np.arange(255) + 0.5) / 255)
    nearest = exact.astype(np.float32)
    thresholds = np.where(nearest < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)
    return decode(np.arange(256) / 255).astype(np.float32), thresholds
