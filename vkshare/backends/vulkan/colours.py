"""Colours as a format stores them, so that every driver clears to the very bytes that the CPU rasterizer writes.

A driver's own conversion may round the other way at a tie. What is given to it here is already the float that a code
of the format stands for, which every rounding takes back to that code. The conversions are native/raster/format.c's:
round to nearest even in single precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from vkshare.formats import Format

_Floats = np.ndarray[Any, np.dtype[np.float32]]


def storable(colour: Sequence[float], pixel_format: Format) -> tuple[float, float, float, float]:
    """The colour that `pixel_format` can hold nearest to RGBA `colour`.

    Linear for -srgb formats, as clear values are.
    """
    with np.errstate(over="ignore"):  # beyond the largest half is infinity
        values = np.asarray(colour, np.float32)
        if pixel_format.dtype == "float32":
            exact = values
        elif pixel_format.dtype == "float16":
            exact = values.astype(np.float16).astype(np.float32)
        elif pixel_format.name == "rgb10a2unorm":
            exact = _unorm(values, np.array([1023, 1023, 1023, 3], np.float32))
        else:
            exact = _unorm(values, np.full(4, 255, np.float32))
        if pixel_format.is_srgb:
            exact[:3] = _srgb(values[:3])
    red, green, blue, alpha = map(float, exact)
    return red, green, blue, alpha


def _unorm(values: _Floats, levels: _Floats) -> _Floats:
    clamped = np.minimum(np.where(values > 0, values, np.float32(0)), np.float32(1))  # NaN to 0
    codes: _Floats = np.rint(clamped * levels)
    return codes / levels


def _srgb(values: _Floats) -> _Floats:
    linear, thresholds = srgb_tables()
    codes = np.searchsorted(thresholds, np.where(values > 0, values, np.float32(0)), side="right")
    return linear[codes]


@cache
def srgb_tables() -> tuple[_Floats, _Floats]:
    """Linear values of the codes, and the smallest float that encodes to each but 0 (Khronos Data Format 13.3)."""

    def decode(encoded: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)

    exact = decode((np.arange(255) + 0.5) / 255)
    nearest = exact.astype(np.float32)
    thresholds = np.where(nearest < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)
    return decode(np.arange(256) / 255).astype(np.float32), thresholds
