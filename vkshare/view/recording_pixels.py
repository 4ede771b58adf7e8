"""Pixels of surfaces as PyAV's encoders take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkshare.view.display_pixels import EIGHT_BIT, to_rgba8

# Formats whose pixels a lossless file has bit for bit, with the encoders' formats for them. Other formats become RGBA
# of 8 bits a channel, as they are shown.
_FFV1 = {"r8unorm": "gray", "r16unorm": "gray16le", "d16unorm": "gray16le", "rgba16unorm": "rgba64le"}
_PNG = {"r8unorm": "gray", "r16unorm": "gray16be", "d16unorm": "gray16be", "rgba16unorm": "rgba64be"}
_EXACT = {"ffv1": _FFV1, "png": _PNG}


def pixel_format(codec: str, format: str) -> str:
    """The pixel format of PyAV's in which a surface's pixels are given to the encoder."""
    if codec in _EXACT:
        return _EXACT[codec].get(format, {"ffv1": "bgra", "png": "rgba"}[codec])
    return "rgba"


def is_exact(codec: str, format: str) -> bool:
    """Whether the file has the surface's pixels bit for bit."""
    return codec in _EXACT and (format in _EXACT[codec] or format in EIGHT_BIT)


def given(codec: str, array: np.ndarray[Any, Any], format: str) -> np.ndarray[Any, Any]:
    """The pixels (H, W, C) of a surface in `pixel_format()`; (H, W) where that is grey."""
    if format in _EXACT.get(codec, ()):
        return array[..., 0] if array.shape[-1] == 1 else array
    if codec == "ffv1" and format == "bgra8unorm":
        return array
    pixels = to_rgba8(array, format)
    return to_rgba8(pixels, "bgra8unorm") if codec == "ffv1" else pixels  # red and blue change places


def even(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Pixels with an even width and height: the last column and row are repeated where they are odd."""
    height, width = array.shape[:2]
    if height % 2 == 0 and width % 2 == 0:
        return array
    return np.pad(array, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
