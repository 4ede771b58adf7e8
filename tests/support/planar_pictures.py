"""Pictures in planes, and what they are in R'G'B'."""

from __future__ import annotations

from typing import Any

import numpy as np

import vkshare as vks
from vkshare.color import Color
from vkshare.formats import get

Planes = tuple[np.ndarray[Any, Any], ...]


def noise(surface: vks.Surface, seed: int = 1) -> Planes:
    """Random planes; unused bits of words are 0."""
    random = np.random.default_rng(seed)
    form = surface.spec.format
    found = []
    for index, plane in enumerate(form.planes):
        width, height = form.plane_size(index, surface.width, surface.height)
        most = 2 ** (8 * plane.numpy_dtype.itemsize) - 1
        codes = random.integers(0, most, (height, width, plane.channels), plane.numpy_dtype, endpoint=True)
        found.append(codes & 0xFFC0 if form.name == "p010" else codes)
    return tuple(found)


def exact(planes: Planes, name: str, color: Color) -> np.ndarray[Any, Any]:
    """R'G'B' in float64, (H, W, 3): H.273's matrices, and chroma between its pixels (Vulkan 16.3.8)."""
    bits = 10 if name == "p010" else 8
    codes = [(plane >> 6 if bits == 10 else plane).astype(np.float64) for plane in planes]
    chroma = codes[1] if len(codes) == 2 else np.concatenate(codes[1:], axis=2)
    across, down = get(name).chroma
    chroma = _between(chroma, 1, across, color.siting != "center")
    chroma = _between(chroma, 0, down, color.siting == "top-left")
    step, most = 2 ** (bits - 8), 2**bits - 1
    is_full = color.range == "full"
    luma = codes[0][..., 0] / most if is_full else (codes[0][..., 0] - 16 * step) / (219 * step)
    blue, red = np.moveaxis((chroma - 128 * step) / (most if is_full else 224 * step), 2, 0)
    kr, kb = {"bt709": (0.2126, 0.0722), "bt601": (0.299, 0.114), "bt2020": (0.2627, 0.0593)}[color.matrix]
    r, b = luma + 2 * (1 - kr) * red, luma + 2 * (1 - kb) * blue
    return np.stack([r, (luma - kr * r - kb * b) / (1 - kr - kb), b], 2).clip(0, 1)


def _between(chroma: np.ndarray[Any, Any], axis: int, factor: int, is_cosited: bool) -> np.ndarray[Any, Any]:
    if factor == 1:
        return chroma
    size = chroma.shape[axis]
    at = np.arange(2 * size) / 2 if is_cosited else (np.arange(2 * size) + 0.5) / 2 - 0.5
    first = np.floor(at).astype(int)
    weight = (at - first).reshape([-1 if each == axis else 1 for each in range(3)])
    low, high = (chroma.take((first + step).clip(0, size - 1), axis) for step in (0, 1))
    return low * (1 - weight) + high * weight


def first_difference(found: Planes, wanted: Planes) -> str:
    """The plane and the place in which they differ first, with both codes; "" where they are the same."""
    for index, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"plane {index} is {one.shape} {one.dtype}, and should be {other.shape} {other.dtype}"
        wrong = np.argwhere(one != other)
        if wrong.size:
            at = tuple(map(int, wrong[0]))
            return f"plane {index}: {len(wrong)} of {one.size} codes, first at {at}: {one[at]}, should be {other[at]}"
    return ""
