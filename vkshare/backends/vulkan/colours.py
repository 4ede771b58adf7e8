"""Colours as a format stores them, so that every driver clears to the very bytes that the CPU rasterizer writes.

A driver's own conversion may round the other way at a tie. Its input here is already the float that a code
of the format stands for, which every rounding takes back to that code. The conversions are native/raster/format.c's:
round to nearest even in single precision.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from math import copysign, inf
from typing import Any

import numpy as np

from vkshare.formats import Format

_Colour = tuple[float, ...]  # RGBA, each exact in single precision
_Floats = np.ndarray[Any, np.dtype[np.float32]]

_SINGLES = struct.Struct("4f")
_HALF = struct.Struct("e")


def storable(colour: Sequence[float], pixel_format: Format) -> _Colour:
    """The colour that `pixel_format` can hold nearest to RGBA `colour`.

    Linear for -srgb formats, as clear values are. Without NumPy, which takes longer over four numbers than the clear.
    """
    return _storable(_SINGLES.pack(*colour), pixel_format)  # bytes, to tell -0.0 from 0.0


@lru_cache(256)
def _storable(singles: bytes, pixel_format: Format) -> _Colour:
    values = _SINGLES.unpack(singles)
    if pixel_format.dtype == "float32":
        return values
    if pixel_format.dtype == "float16":
        return tuple(map(_half, values))
    levels = (1023, 1023, 1023, 3) if pixel_format.name == "rgb10a2unorm" else (255, 255, 255, 255)
    exact = _unorm(values, levels)
    return (*map(_srgb, values[:3]), exact[3]) if pixel_format.is_srgb else exact


def _singles(values: Iterable[float]) -> _Colour:
    """Rounded to single precision."""
    return _SINGLES.unpack(_SINGLES.pack(*values))


def _half(value: float) -> float:
    try:
        rounded: float = _HALF.unpack(_HALF.pack(value))[0]
    except OverflowError:
        return copysign(inf, value)
    return rounded


def _unorm(values: _Colour, levels: Sequence[int]) -> _Colour:
    clamped = (min(value, 1.0) if value > 0 else 0.0 for value in values)  # NaN to 0
    scaled = _singles(value * level for value, level in zip(clamped, levels, strict=True))
    return _singles(round(code) / level for code, level in zip(scaled, levels, strict=True))


def _srgb(value: float) -> float:
    linear, thresholds = _srgb_lists()
    return linear[bisect_right(thresholds, value if value > 0 else 0.0)]


@cache
def _srgb_lists() -> tuple[list[float], list[float]]:
    linear, thresholds = srgb_tables()
    return linear.tolist(), thresholds.tolist()


@cache
def srgb_tables() -> tuple[_Floats, _Floats]:
    """Linear values of the codes, and the smallest float that encodes to each but 0 (Khronos Data Format 13.3)."""

    def decode(encoded: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)

    exact = decode((np.arange(255) + 0.5) / 255)
    nearest = exact.astype(np.float32)
    thresholds = np.where(nearest < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)
    return decode(np.arange(256) / 255).astype(np.float32), thresholds
