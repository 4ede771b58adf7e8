"""Pixels of every surface format as screens show them: RGBA with 8 bits a channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkshare import formats

Array = np.ndarray[Any, Any]

AS_STORED = ("rgba8unorm", "rgba8unorm-srgb")  # formats whose pixels need no conversion
EIGHT_BIT = ("r8unorm", "rg8unorm", *AS_STORED, "bgra8unorm")  # formats that are converted without loss


def to_rgba8(array: Array, format: str) -> Array:
    """Return the pixels of a surface, or of a part of it, as RGBA of 8 bits a channel.

    Colours stay as they are stored: nothing is encoded or decoded as sRGB. Formats of 8 bits a channel lose nothing.
    Larger unorm values are rounded to 8 bits; floats are clamped to 0 to 1 and rounded, and NaN is 0. A single
    channel is shown as grey, two as red and green, and alpha is opaque where the format has none. A number of
    r32uint is shown by its three low bytes: bits 0 to 7 as red, 8 to 15 as green, 16 to 23 as blue.

    Parameters
    ----------
    array
        (H, W, C) as ``Surface.read()`` returns it.
    format
        The surface's.

    Returns
    -------
    numpy.ndarray
        (H, W, 4), uint8; `array` itself where it has these pixels already.

    Raises
    ------
    ValueError
        The array has another shape or type than such a surface.
    """
    form = formats.get(format)
    if array.ndim != 3 or array.shape[2] != form.channels or array.dtype != form.numpy_dtype:
        raise ValueError(
            f"the array is {array.shape} {array.dtype}; {form} has (H, W, {form.channels}) and {form.dtype}"
        )
    if form.name in AS_STORED:
        return array
    if form.name == "rgb10a2unorm":
        return _from_rgb10a2(array[..., 0])
    if form.name == "r32uint":
        return _from_numbers(array[..., 0])
    channels = _to_bytes(array)
    return _swapped(channels) if form.name == "bgra8unorm" else _spread(channels)


def _to_bytes(array: Array) -> Array:
    """The channels with 8 bits each."""
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.uint16:
        return ((array.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    wide = np.clip(np.nan_to_num(array.astype(np.float32), nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
    return (wide * np.float32(255) + np.float32(0.5)).astype(np.uint8)


def _spread(channels: Array) -> Array:
    """One channel as grey, two as red and green; four as they are."""
    count = channels.shape[2]
    if count == 4:
        return channels
    pixels = np.empty((*channels.shape[:2], 4), np.uint8)
    if count == 1:
        pixels[..., :3] = channels
    else:
        pixels[..., :2] = channels
        pixels[..., 2] = 0
    pixels[..., 3] = 255
    return pixels


def _swapped(channels: Array) -> Array:
    """BGRA as RGBA. By whole words, which is twice as fast as by channels."""
    words = np.ascontiguousarray(channels).view(np.uint32)
    red_blue = np.uint32(0x00FF00FF)
    swapped = words & red_blue
    swapped = (swapped << np.uint32(16)) | (swapped >> np.uint32(16))
    swapped |= words & ~red_blue
    return swapped.view(np.uint8)


def _from_rgb10a2(words: Array) -> Array:
    pixels = np.empty((*words.shape, 4), np.uint8)
    for channel in range(3):
        pixels[..., channel] = (((words >> np.uint32(10 * channel)) & np.uint32(1023)) * np.uint32(255) + 511) // 1023
    pixels[..., 3] = (words >> np.uint32(30)) * np.uint32(85)
    return pixels


def _from_numbers(words: Array) -> Array:
    shown = np.ascontiguousarray(words.astype("<u4")).view(np.uint8).reshape(*words.shape, 4).copy()
    shown[..., 3] = 255
    return shown
