"""Surfaces that the CPU sees, with random contents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkshare as vks
from support.pixel_formats import ONE_PLANE, WITHOUT_DEPTH
from vkshare.errors import UnsupportedError


def linear(device: vks.Device, format: str = "rgba8unorm", width: int = 13, height: int = 5) -> vks.Surface:
    """Host-visible, with padded rows where the driver pads any. Skips the test where there is none."""
    if format not in device.capabilities.formats:
        pytest.skip(f"{device.adapter.name} has no {format}")
    try:
        surface = device.create_surface(width, height, format, tiling="linear")
    except UnsupportedError:  # SwiftShader shares no linear images that it renders to
        surface = device.create_surface(width, height, format, tiling="linear", usage=("sample", "copy"))
    if not surface.is_host_visible:
        pytest.skip(f"the CPU cannot see linear surfaces of {device.adapter.name}")
    return surface


def linear_formats(device: vks.Device) -> list[str]:
    """The device's formats that have linear surfaces: on Vulkan depth has none."""
    names = ONE_PLANE if device.backend == "cpu" else WITHOUT_DEPTH
    return [n for n in sorted(device.capabilities.formats) if n in names]


def noise(surface: Any, seed: int = 1) -> np.ndarray[Any, Any]:
    """What may be in the surface, bit for bit: finite where the format is a float."""
    random = np.random.default_rng(seed)
    dtype = surface.spec.format.numpy_dtype
    if surface.spec.format.is_depth and dtype.kind == "f":
        return random.random(surface.shape).astype(dtype)
    if dtype.kind == "f":
        return random.standard_normal(surface.shape).astype(dtype)
    return random.integers(0, np.iinfo(dtype).max, surface.shape, dtype, endpoint=True)
